/**
 * The messages that a client has sent and still waits for, and its two connections.
 *
 *   push --> PushBuffer ==> request lists          one variadic push per list and event
 *     |
 *     +--> receivers by id, deadlines on the wheel
 *              ^
 *              +--- ReplyReader <== reply list      if all live workers of the service use it
 *              +--- ReplyReader <== response keys   if not
 *              +--- ResponsePoller <== response keys   from time to time for calls of the first kind, in case
 *                                                      a worker of the second kind took one
 */
import { ClosedError, ConnectionLostError, type Redis, type RedisClock } from "@ropeway/core";
import { DeadlineExceededError, errorFromWire } from "../errors.ts";
import type { ClientOptions } from "../options.ts";
import { Directory } from "../registry/directory.ts";
import { CallStore } from "../store/call-store.ts";
import { hasBlmpop } from "../store/list-popper.ts";
import { PushBuffer } from "../store/push-buffer.ts";
import { explain, isPassing } from "../store/refusal.ts";
import { RequestSweeper } from "../store/request-sweeper.ts";
import { TimerWheel, WheelTimer } from "../timer-wheel.ts";
import type { Dialect, IncomingResponse, Progress } from "../wire/dialect.ts";
import { beginHead, readHead } from "../wire/head.ts";
import { CommonDeadline } from "./common-deadline.ts";
import type { PendingCall, PendingHost, Receiver } from "./pending-call.ts";
import { PendingTable } from "./pending-table.ts";
import type { Outgoing } from "./placement.ts";
import { receiveText } from "./receive-text.ts";
import { ReplyReader } from "./reply-reader.ts";
import { ResponsePoller } from "./response-poller.ts";
import { Withdrawals } from "./withdrawals.ts";

/** The options of an exchange. */
export interface ExchangeOptions {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly clock: RedisClock;
  readonly options: Required<ClientOptions>;
  onError(error: unknown): void;
}

const CONTROL_TTL_SECONDS = 120;
/** How long a push that the server refuses for the moment is repeated. */
const INSIST_MS = 10_000;
/** The pauses between requests for lost responses. */
const ASK_AGAIN_MS = [1_000, 3_000, 6_000];

/** The sending and receiving half of a client. */
export class Exchange implements PendingHost {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly clock: RedisClock;
  readonly options: Required<ClientOptions>;
  readonly store: CallStore;
  readonly directory: Directory;
  readonly wheel: TimerWheel = new TimerWheel();
  readonly replyList: string;
  readonly withdrawals: Withdrawals;
  readonly #reader: ReplyReader;
  readonly #pushes: PushBuffer;
  readonly #pending: PendingTable;
  readonly #poller: ResponsePoller;
  readonly #commonDeadline: CommonDeadline;
  readonly #onError: (error: unknown) => void;
  /** Messages that are being pushed, by their id. */
  readonly #delivering = new Map<string, Outgoing>();
  /** The latest deadline of a plain call, and the start of its text. Calls of the same millisecond share both. */
  #plainDeadline = 0;
  #plainHead = "";
  #askingAgain: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(given: ExchangeOptions) {
    const { redis, dialect, options } = given;
    this.redis = redis;
    this.dialect = dialect;
    this.clock = given.clock;
    this.options = options;
    this.#onError = given.onError;
    this.store = new CallStore(redis, dialect);
    this.directory = new Directory(redis, dialect);
    this.#pending = new PendingTable((error, text) =>
      redis.logger.warn({ err: error, text }, "a response cannot be read"),
    );
    this.replyList = dialect.keys.reply(this.#pending.ids.client);
    this.#pushes = new PushBuffer(redis, {
      push: dialect.push,
      repeatable: false,
      isPassing: (error, list) =>
        isPassing(error) && (!isOutOfMemory(error) || dialect.keys.isControl(list)),
      isUnwanted: (text) => this.#isUnwanted(readHead(text)?.id),
      insistMs: INSIST_MS,
      expiresAtOnce: () => dialect.expiresWithPush,
      isSwept: (list) => dialect.keys.isRequest(list),
      sweeper: new RequestSweeper(redis, dialect, given.clock),
      onError: (error, texts, list) => this.#notSent(error, texts, list),
    });
    this.#reader = new ReplyReader({
      redis,
      dialect,
      store: this.store,
      replyList: this.replyList,
      pushes: this.#pushes,
      modern: !options.plainPop && hasBlmpop(redis),
      onReplies: (texts) => this.#pending.receiveAll(texts),
      onGap: () => this.#gap(),
      onError: given.onError,
    });
    this.#poller = new ResponsePoller(this, this.#pending);
    this.#commonDeadline = new CommonDeadline(this.wheel, this.#pending, options.timeoutMs);
    this.withdrawals = new Withdrawals(this);
  }

  get inFlight(): number {
    return this.#pending.size;
  }

  /** The counter of a new short id. */
  nextNumber(): number {
    this.#pending.ids.last += 1;
    return this.#pending.ids.last;
  }

  idOf(number: number): string {
    return this.#pending.ids.short(number);
  }

  /** The text of a call with the default timeout and a short id, up to the number in the id; `at` is now. */
  plainHead(at: number): string {
    const deadline = this.deadlineIn(this.options.timeoutMs, at);
    if (deadline !== this.#plainDeadline) {
      this.#plainDeadline = deadline;
      this.#plainHead = beginHead(deadline, this.#pending.ids.shortPrefix);
    }
    return this.#plainHead;
  }

  /** Whether responses of this service come in the reply list; `at` is now, for callers that already know it. */
  usesReplyList(service: string, at?: number): boolean {
    const { replies } = this.options;
    if (replies !== "auto") return replies === "list";
    return this.dialect.replyLists && this.directory.allUseReplyLists(service, at);
  }

  /** A new id. It is short if only Ropeway workers will read it. */
  nextId(short: boolean): string {
    return this.#pending.ids.next(short);
  }

  /** The deadline on the wire for an operation that may take `ms` from `at` on; `at` is a performance.now(). */
  deadlineIn(ms: number, at: number = performance.now()): number {
    return Math.ceil(this.clock.at(at) + ms);
  }

  /** From here on, the call gets a response, expires, or is cancelled. */
  await(pending: PendingCall): void {
    this.register(pending);
    const { sharesDeadline, timeoutMs, sentAt } = pending;
    if (sharesDeadline) {
      this.#commonDeadline.watch(sentAt);
      return;
    }
    pending.timer = new WheelTimer(() => pending.due());
    this.wheel.set(pending.timer, timeoutMs, sentAt);
  }

  /** Starts to read the reply list, because the response of a registered receiver comes in it. */
  expectReply(): void {
    this.#poller.start();
    this.#reader.start();
  }

  /** Delivers messages under the receiver's id to it, until forget(). Throws ClosedError. */
  register(receiver: Receiver): void {
    this.requireOpen();
    this.#pending.add(receiver);
  }

  forget(receiver: Receiver): void {
    this.#pending.delete(receiver);
  }

  has(receiver: Receiver): boolean {
    return this.#pending.has(receiver);
  }

  /** Delivers messages under the documented keys of a call. Returns an unsubscribe function. */
  watch(receiver: Receiver, tracked: boolean): () => void {
    const { keys } = this.dialect;
    const { id, route } = receiver;
    const refuse = (error: unknown) => receiver.fail(error);
    const response = keys.response(route.method, id);
    if (!tracked) {
      this.#reader.watch(response, { receive: (text) => receiveText(receiver, text), refuse });
      return () => this.#reader.unwatch(response);
    }
    const progress = keys.progress(route.method, id);
    const report = (text: string) => receiveText(receiver, `{"progress":${text}}`);
    this.#reader.watch(progress, { receive: report, refuse });
    this.#reader.watch(response, {
      refuse,
      // The last reports may still be in their list when the response arrives.
      receive: (text) =>
        void this.store
          .collect([progress])
          .then((found) => found.flatMap(([, texts]) => texts).forEach(report), refuse)
          .then(() => receiveText(receiver, text)),
    });
    return () => {
      this.#reader.unwatch(response);
      this.#reader.unwatch(progress);
    };
  }

  /** Pushes a control message together with the other messages of this event. */
  post(list: string, text: string): void {
    this.#pushes.push(list, text, CONTROL_TTL_SECONDS);
  }

  /** Pushes a call. Its receiver is notified of a failure. */
  push(list: string, text: string, timeoutMs: number): void {
    this.#pushes.push(list, text, this.requestTtl(timeoutMs));
  }

  /** Pushes a call. Resolves when Redis has it, or when it is no longer wanted. */
  async deliver(message: Outgoing): Promise<void> {
    this.requireOpen();
    const { id, list, text, timeoutMs } = message;
    this.#delivering.set(id, message);
    try {
      await this.#pushes.pushed(list, text, this.requestTtl(timeoutMs));
    } catch (error) {
      throw explain(error, list);
    } finally {
      this.#delivering.delete(id);
    }
  }

  /** Throws ClosedError if the client was closed. */
  requireOpen(): void {
    if (this.#closed) throw new ClosedError("the client");
  }

  /** The lifetime of the request list, in seconds. */
  requestTtl(timeoutMs: number): number {
    return Math.max(this.dialect.requestTtlSeconds, Math.ceil(timeoutMs / 1_000));
  }

  /** Sends a control message to every live worker of a service, including one that has just started. */
  async tellWorkers(service: string, text: string): Promise<void> {
    for (const { ctl } of await this.directory.workers(service)) {
      if (ctl !== undefined) this.post(ctl, text);
    }
  }

  answered(call: PendingCall): void {
    this.#pending.delete(call);
    if (call.timer !== undefined) this.wheel.clear(call.timer);
    call.extras.onSettled?.();
  }

  expired(call: PendingCall): void {
    const { route, timeoutMs } = call;
    call.fail(new DeadlineExceededError(`the call of ${route.name}`, timeoutMs));
    this.withdrawals.expired(route, call.id);
  }

  decode(message: Readonly<Record<string, unknown>>): IncomingResponse | undefined {
    return this.dialect.decodeResponse(message);
  }

  failure(error: unknown): unknown {
    return errorFromWire(error);
  }

  progress(
    report: Readonly<Record<string, unknown>>,
    listener: ((progress: Progress) => void) | undefined,
  ): void {
    try {
      listener?.(this.dialect.decodeProgress(report));
    } catch (error) {
      this.#onError(error);
    }
  }

  /** Rejects the waiting calls, and closes the connection. */
  async close(): Promise<void> {
    this.#closed = true;
    const closed = new ClosedError("the client");
    for (const receiver of [...this.#pending]) receiver.fail(closed);
    this.#poller.stop();
    clearTimeout(this.#askingAgain);
    try {
      await this.#pushes.drained();
    } finally {
      await this.#reader.close();
    }
    await this.store.delete(this.replyList);
  }

  #isUnwanted(id: string | undefined): boolean {
    const message = this.#delivering.get(id ?? "");
    return message?.wanted === false || this.#pending.isOver(id);
  }

  #notSent(error: unknown, texts: readonly string[], list: string): void {
    const reason = explain(error, list);
    for (const text of texts) {
      const receiver = this.#pending.get(readHead(text)?.id);
      if (error instanceof ConnectionLostError) receiver?.onUnsure(error);
      else receiver?.fail(reason);
    }
  }

  /** Messages that were popped when the connection broke are lost, but workers keep them for a while. */
  #gap(): void {
    const missing = [...this.#pending].filter((receiver) => receiver.onGap());
    this.#askAgain(missing, 0);
  }

  /** Asks several times, because the request itself can be lost, and a worker may come back later than this client. */
  #askAgain(missing: readonly Receiver[], attempt: number): void {
    clearTimeout(this.#askingAgain);
    const open = missing.filter(({ id }) => this.#pending.get(id) !== undefined);
    if (open.length === 0 || this.#closed) return;
    const byService = new Map<string, string[]>();
    for (const { id, route } of open) {
      const ids = byService.get(route.service);
      if (ids === undefined) byService.set(route.service, [id]);
      else ids.push(id);
    }
    for (const [service, again] of byService) {
      this.#tellRecentWorkers(service, JSON.stringify({ again })).catch((error) =>
        this.redis.logger.debug({ err: error, service }, "cannot ask for lost responses"),
      );
    }
    const pauseMs = ASK_AGAIN_MS[attempt];
    if (pauseMs === undefined) return;
    this.#askingAgain = setTimeout(() => this.#askAgain(open, attempt + 1), pauseMs).unref();
  }

  /** Also those that an outage has removed from the registry: they hold the responses. */
  async #tellRecentWorkers(service: string, text: string): Promise<void> {
    for (const list of await this.directory.recentControlLists(service)) this.post(list, text);
  }
}

/** A caller gets an error at once if Redis had no room for its call. Control messages have no caller. */
function isOutOfMemory(error: unknown): boolean {
  return (error as { prefix?: unknown }).prefix === "OOM";
}
