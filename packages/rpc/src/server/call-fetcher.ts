/**
 * Pops the lists of a worker on one blocking connection.
 *
 *   control list, session lists, request lists (rotated)
 *        |
 *        v  BLMPOP, at most as many as there are free slots
 *   CallIntake        all responses of one event leave in one push per caller, in one write with
 *                     the next pop if they were ready at once
 *
 * Only calls that can start are popped: other calls wait in Redis, where another worker can take
 * them. When all slots are busy, when the worker is paused and while it closes, only the control list is
 * read: running streams need their credit, and running calls may be cancelled.
 */
import { isReply, type Redis } from "@ropeway/core";
import { type BlockingConnection, Loop } from "@ropeway/core/internal";
import type { CallStore } from "../store/call-store.ts";
import { type ListPopper, leaves, type Popped } from "../store/list-popper.ts";
import type { ServerStreams } from "../stream/server-streams.ts";
import type { CallIntake } from "./call-intake.ts";
import type { LoadShedder } from "./load-shedder.ts";
import type { ReplyWriter } from "./reply-writer.ts";
import type { RequestLists } from "./request-lists.ts";
import type { Source } from "./served-service.ts";
import type { Slots } from "./slots.ts";

/** The options of a fetcher. */
export interface CallFetcherOptions {
  readonly redis: Redis;
  readonly store: CallStore;
  readonly blocking: BlockingConnection;
  readonly popper: ListPopper;
  readonly lists: RequestLists;
  readonly controlList: string;
  readonly intake: CallIntake;
  readonly streams: ServerStreams;
  readonly replies: ReplyWriter;
  readonly slots: Slots;
  readonly shedder: LoadShedder | undefined;
  onError(error: unknown): void;
}

/** How often a worker without a free slot reads its control list. */
const BUSY_CHECK_MS = 25;
const HELD_BLOCK_MS = 1_000;
const PER_CONTROL_POP = 1_000;
const PER_SHED = 1_000;

/** The loop that fetches the calls of a worker. */
export class CallFetcher {
  readonly #options: CallFetcherOptions;
  readonly #loop: Loop;
  /** Whether only the control list is popped. */
  #held = false;
  /** Whether calls are being popped, or were popped and have not all started. */
  taking = false;

  constructor(options: CallFetcherOptions) {
    this.#options = options;
    this.#loop = new Loop({
      tick: () => this.#tick(),
      onError: (error) => options.onError(error),
      backoff: { baseMs: 10, maxMs: 1_000 },
    });
  }

  start(): void {
    this.#loop.start();
  }

  /** Takes no more calls; control messages are still read. */
  hold(): void {
    this.#held = true;
    this.#options.blocking.interrupt();
  }

  /** Takes calls again. */
  release(): void {
    this.#held = false;
    this.#options.blocking.interrupt();
  }

  async close(): Promise<void> {
    const closed = this.#loop.close();
    this.#options.blocking.interrupt();
    await closed;
  }

  async #tick(): Promise<number> {
    const { slots, replies } = this.#options;
    const { free } = slots;
    if (free === 0 && !this.#held) return this.#whileBusy();
    this.taking = !this.#held;
    try {
      const popped = await this.#pop(free);
      if (popped === null) return 0;
      const handling = this.#handle(popped, free);
      if (handling !== undefined) await handling;
    } finally {
      this.taking = false;
    }
    await leaves(replies.pushes); // responses that are already there
    return 0;
  }

  #pop(free: number): Promise<Popped | null> {
    const { popper, controlList, lists } = this.#options;
    if (this.#held) {
      return popper.pop([controlList], { count: PER_CONTROL_POP, blockMs: HELD_BLOCK_MS });
    }
    return popper
      .pop([controlList, ...lists.next()], { count: free, blockMs: lists.blockMs })
      .then(undefined, async (error) => {
        if (isReply(error, "WRONGTYPE")) await lists.avoidWrongTypes(error);
        throw error;
      });
  }

  /** Undefined if all calls have started at once, which is usual. */
  #handle(popped: Popped, asked: number): Promise<void> | undefined {
    const { intake, lists } = this.#options;
    const source = lists.get(popped.list);
    if (source === undefined) {
      this.#control(popped.texts);
      return undefined;
    }
    const next = intake.accept(source, popped);
    const { length } = popped.texts;
    return next === length && length < asked
      ? undefined
      : this.#handleRest(source, popped, { next, full: length === asked });
  }

  async #handleRest(
    source: Source,
    popped: Popped,
    { next, full }: { readonly next: number; readonly full: boolean },
  ): Promise<void> {
    const { intake } = this.#options;
    for (let at = next; at < popped.texts.length; ) {
      await leaves(); // responses of blocking handlers leave before other calls run
      at = intake.accept(source, popped, at);
    }
    if (full) await this.#shedExcess(source.list);
  }

  /** Refuses the oldest calls of a queue that is too long. */
  async #shedExcess(list: string): Promise<void> {
    const { store, lists, intake, shedder } = this.#options;
    const limit = shedder?.maxQueueLength;
    const source = lists.get(list);
    if (limit === undefined || source === undefined || source.group !== undefined) return;
    const excess = (await store.length(list)) - limit;
    if (excess <= 0) return;
    intake.refuseAll(source, await store.popNow(list, Math.min(excess, PER_SHED)));
  }

  async #whileBusy(): Promise<number> {
    const { slots, store, controlList, lists, shedder } = this.#options;
    await slots.freed(BUSY_CHECK_MS);
    if (slots.free > 0) return 0;
    this.#control(await store.popNow(controlList, PER_CONTROL_POP));
    if (shedder?.maxQueueLength !== undefined) {
      for (const list of lists.next()) await this.#shedExcess(list);
    }
    return 0;
  }

  #control(texts: readonly string[]): void {
    const { intake, streams, replies, redis } = this.#options;
    for (const text of texts) {
      try {
        const message = JSON.parse(text) as Record<string, unknown>;
        if (Array.isArray(message.again)) replies.again(message.again.map(String));
        else if (message.cancel === true) intake.cancel(String(message.id));
        else streams.control(String(message.id), message);
      } catch (error) {
        redis.logger.warn({ err: error, text }, "a control message cannot be read");
      }
    }
  }
}
