/**
 * Reads everything that a client process waits for, on one blocking connection: its reply list, with many
 * responses of Ropeway workers at a time, and any number of single keys (response, process), where the
 * responses of documented workers arrive one by one.
 *
 *          +-------------------------------------------------------------+
 *          v                                                             |
 *   arm: BLMPOP reply, key, key, ... --popped--> deliver --> collect the other keys without waiting
 *          ^          |                            |
 *          |          |                            +-- messages sent by the program now leave with the next pop
 *          |          +-- a key is added: CLIENT UNBLOCK, arm again
 *          +-- lost: reconnect; onGap reports that popped elements may have been lost with the socket
 */
import { isReply, type Redis, WrongKeyTypeError } from "@ropeway/core";
import { type BlockingConnection, Loop } from "@ropeway/core/internal";
import type { CallStore } from "../store/call-store.ts";
import { ListPopper, leaves, type Popped } from "../store/list-popper.ts";
import type { PushBuffer } from "../store/push-buffer.ts";
import type { Dialect } from "../wire/dialect.ts";

/** The options of a reply reader. */
export interface ReplyReaderOptions {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly store: CallStore;
  readonly replyList: string;
  /** Collects the messages that the responses cause. */
  readonly pushes: PushBuffer;
  /** Whether BLMPOP may be used. */
  readonly modern: boolean;
  onReplies(texts: readonly string[]): void;
  onGap(): void;
  onError(error: unknown): void;
}

/** Receives the elements of one key. */
export interface KeyListener {
  receive(text: string): void;
  /** Called if the key is not a list, so no element will ever come. */
  refuse(error: WrongKeyTypeError): void;
}

const BLOCK_MS = 5_000;
const PER_POP = 512;
const PER_COLLECT = 1_000;

/** Pops the responses of one client and delivers them. */
export class ReplyReader {
  readonly #options: ReplyReaderOptions;
  readonly #loop: Loop;
  readonly #watched = new Map<string, KeyListener>();
  #connection: BlockingConnection | undefined;
  #popper: ListPopper | undefined;
  #waiting = false;
  #armed: ReadonlySet<string> = new Set();
  #rearmScheduled = false;
  #gap = false;

  constructor(options: ReplyReaderOptions) {
    this.#options = options;
    this.#loop = new Loop({
      tick: (signal) => this.#tick(signal),
      onError: (error) => {
        this.#gap = true;
        options.onError(error);
      },
      backoff: { baseMs: 10, maxMs: 500 },
    });
  }

  /** Starts to listen to the reply list. Later calls have no effect. */
  start(): void {
    this.#loop.start();
  }

  /** Delivers the elements of a key until unwatch(). One listener per key. */
  watch(key: string, listener: KeyListener): void {
    this.#watched.set(key, listener);
    this.start();
    if (!this.#waiting || this.#rearmScheduled || this.#armed.has(key)) return;
    this.#rearmScheduled = true;
    process.nextTick(() => {
      this.#rearmScheduled = false;
      if (this.#waiting) this.#connection?.interrupt(); // the next pop includes the new key
    });
  }

  /** Stops watching a key. Later messages are discarded, because no call waits for them. */
  unwatch(key: string): void {
    this.#watched.delete(key);
  }

  async close(): Promise<void> {
    const closed = this.#loop.close();
    this.#connection?.interrupt();
    await closed;
    await this.#connection?.close();
  }

  async #tick(signal: AbortSignal): Promise<number> {
    const popper = this.#popper ?? (await this.#ready());
    if (this.#gap) {
      this.#gap = false;
      this.#options.onGap();
      await this.#collectWatched();
    }
    if (signal.aborted) return 0;
    const popped = await this.#pop(popper);
    if (popped === null) return 0;
    const replies = popped.list === this.#options.replyList;
    if (replies) this.#options.onReplies(popped.texts);
    else this.#deliver(popped.list, popped.texts);
    // A reply list that is never empty comes first in every pop, so the keys are read here.
    if (this.#watched.size > (replies ? 0 : 1)) await this.#collectWatched();
    else await leaves(this.#options.pushes); // messages that the program sent because of these responses
    return 0;
  }

  #pop(popper: ListPopper): Promise<Popped | null> {
    const lists = [this.#options.replyList, ...this.#watched.keys()];
    this.#armed = this.#watched.size > 0 ? new Set(lists) : NOTHING;
    this.#waiting = true;
    return popper.pop(lists, { count: PER_POP, blockMs: BLOCK_MS }).then(
      (popped) => {
        this.#waiting = false;
        return popped;
      },
      async (error) => {
        this.#waiting = false;
        if (isReply(error, "WRONGTYPE")) await this.#refuseWrongKeys(error);
        throw error;
      },
    );
  }

  async #ready(): Promise<ListPopper> {
    if (this.#popper === undefined) {
      const { redis, dialect, replyList, modern } = this.#options;
      this.#connection ??= await redis.blocking("rpc-replies", replyList);
      this.#connection.onLost(() => {
        this.#gap = true; // also if the broken pop had already popped elements
      });
      if (redis.topology !== "cluster") {
        this.#options.pushes.rideOn(() => this.#connection?.whileFree);
      }
      this.#popper = new ListPopper(redis, this.#connection, {
        side: dialect.popSide,
        modern,
      });
    }
    return this.#popper;
  }

  async #collectWatched(): Promise<void> {
    const keys = [...this.#watched.keys()];
    for (let at = 0; at < keys.length; at += PER_COLLECT) {
      const found = await this.#options.store.collect(keys.slice(at, at + PER_COLLECT));
      for (const [key, texts] of found) this.#deliver(key, texts);
    }
  }

  #deliver(key: string, texts: readonly string[]): void {
    const listener = this.#watched.get(key);
    for (const text of texts) listener?.receive(text);
  }

  /** One key of another type makes the whole pop fail: its listener is notified, and the others continue. */
  async #refuseWrongKeys(cause: unknown): Promise<void> {
    for (const key of await this.#options.store.wrongTypes([...this.#watched.keys()])) {
      const listener = this.#watched.get(key);
      this.#watched.delete(key);
      listener?.refuse(new WrongKeyTypeError(key, cause));
    }
  }
}

const NOTHING: ReadonlySet<string> = new Set();
