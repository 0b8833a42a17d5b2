/**
 * Everything a client process waits for, on one blocking connection: its reply list, where responses of
 * our own workers come by the hundred, and any number of single keys (response, process), where those
 * of documented workers come one by one.
 *
 *          +-------------------------------------------------------------+
 *          v                                                             |
 *   arm: BLMPOP reply, key, key, ... --popped--> deliver --> collect the other keys without waiting
 *          ^          |                            |
 *          |          |                            +-- what the program sends now leaves with the next pop
 *          |          +-- a key is added: CLIENT UNBLOCK, arm again
 *          +-- lost: reconnect; onGap says that something popped may have died with the socket
 */
import { isReply, type Redis, WrongKeyTypeError } from "@ropeway/core";
import { type BlockingConnection, Loop } from "@ropeway/core/internal";
import type { CallStore } from "../store/call-store.ts";
import { ListPopper, leaves, type Popped } from "../store/list-popper.ts";
import type { PushBuffer } from "../store/push-buffer.ts";
import type { Dialect } from "../wire/dialect.ts";

/** What a reply reader is given. */
export interface ReplyReaderOptions {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly store: CallStore;
  readonly replyList: string;
  /** Where the messages that the responses cause are gathered. */
  readonly pushes: PushBuffer;
  /** Whether BLMPOP may be used. */
  readonly modern: boolean;
  onReplies(texts: readonly string[]): void;
  onGap(): void;
  onError(error: unknown): void;
}

/** Who gets the elements of one key. */
export interface KeyListener {
  receive(text: string): void;
  /** The key holds another type than a list: nothing will ever come. */
  refuse(error: WrongKeyTypeError): void;
}

const BLOCK_MS = 5_000;
const PER_POP = 512;
const PER_COLLECT = 1_000;

/** Pops the responses of one client and hands them out. */
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

  /** Begins to listen to the reply list; later calls change nothing. */
  start(): void {
    this.#loop.start();
  }

  /** Delivers what comes under a key until unwatch(). One listener per key. */
  watch(key: string, listener: KeyListener): void {
    this.#watched.set(key, listener);
    this.start();
    if (!this.#waiting || this.#rearmScheduled || this.#armed.has(key)) return;
    this.#rearmScheduled = true;
    process.nextTick(() => {
      this.#rearmScheduled = false;
      if (this.#waiting) this.#connection?.interrupt(); // the next pop knows more keys
    });
  }

  /** Stops; later messages are discarded, because no call waits for them any more. */
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
    const popped = await this.#pop(signal);
    if (popped === null) return 0;
    const replies = popped.list === this.#options.replyList;
    if (replies) this.#options.onReplies(popped.texts);
    else this.#deliver(popped.list, popped.texts);
    // A reply list that is never empty comes first in every pop: the keys have their turn here.
    if (this.#watched.size > (replies ? 0 : 1)) await this.#collectWatched();
    else await leaves(this.#options.pushes); // what these answers made the program send
    return 0;
  }

  async #pop(signal: AbortSignal): Promise<Popped | null> {
    const popper = this.#popper ?? (await this.#ready());
    if (this.#gap) {
      this.#gap = false;
      this.#options.onGap();
      await this.#collectWatched();
    }
    if (signal.aborted) return null;
    const lists = [this.#options.replyList, ...this.#watched.keys()];
    this.#armed = this.#watched.size > 0 ? new Set(lists) : NOTHING;
    this.#waiting = true;
    try {
      return await popper.pop(lists, { count: PER_POP, blockMs: BLOCK_MS });
    } catch (error) {
      if (isReply(error, "WRONGTYPE")) await this.#refuseWrongKeys(error);
      throw error;
    } finally {
      this.#waiting = false;
    }
  }

  async #ready(): Promise<ListPopper> {
    if (this.#popper === undefined) {
      const { redis, dialect, replyList, modern } = this.#options;
      this.#connection ??= await redis.blocking("rpc-replies", replyList);
      this.#connection.onLost(() => {
        this.#gap = true; // also when the pop it broke had popped something before
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
