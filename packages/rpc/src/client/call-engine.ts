/**
 * The caller's engine: what has been sent, what waits for an answer, and the two connections of it.
 *
 *   send --> PushBuffer ==> request lists             one variadic push per list and event
 *     |
 *     +--> receivers by id, deadline on the wheel
 *              ^
 *              +--- ReplyReader <== reply list           if all live workers of the service can use it
 *              +--- ReplyReader <== response keys        if not
 *              +--- look  <== response keys        now and then for calls of the first kind, in case a
 *                                                  worker of the second kind took one
 */
import { ConnectionLostError, isReply, type Redis, type RedisClock } from "@ropeway/core";
import {
  CancelledError,
  DeadlineExceededError,
  errorFromWire,
  MessageTooLargeError,
  paramsError,
  RpcClosedError,
  type RpcError,
  WrongKeyTypeError,
} from "../errors.ts";
import type { ClientOptions } from "../options.ts";
import { Directory } from "../registry/directory.ts";
import { hasBlmpop } from "../store/list-popper.ts";
import { PushBuffer } from "../store/push-buffer.ts";
import { move } from "../store/scripts.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { TimerWheel } from "../timer-wheel.ts";
import { bytesOver, paramsJson } from "../wire/choose-dialect.ts";
import type { Dialect, IncomingAnswer, OutgoingCall, Progress } from "../wire/dialect.ts";
import { readHead, writeHead } from "../wire/head.ts";
import { PendingCall, type PendingHost, type Receiver } from "./pending-call.ts";
import { PendingTable } from "./pending-table.ts";
import { ReplyReader } from "./reply-reader.ts";
import { LOOK_EVERY_MS, ResponsePoller, receiveAnswer } from "./response-poller.ts";
import { Route, splitTarget } from "./route.ts";

/** What can be said about one sending. */
export interface SendOptions {
  readonly timeoutMs: number;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly traceparent?: string | undefined;
  /** It will be sent again if this sending fails: an unknown outcome is a failure. */
  readonly repeatable?: boolean | undefined;
  /** Gives the call up. */
  readonly signal?: AbortSignal | undefined;
}

const CONTROL_TTL_SECONDS = 120;

/** See the top of the file. */
export class CallEngine implements PendingHost {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly clock: RedisClock;
  readonly options: Required<ClientOptions>;
  readonly directory: Directory;
  readonly inbox: ReplyReader;
  readonly wheel: TimerWheel = new TimerWheel();
  readonly replyList: string;
  readonly #pushes: PushBuffer;
  readonly #receivers: PendingTable;
  readonly #routes = new Map<string, Route>();
  readonly #metrics = new Metrics("client");
  readonly #looker: ResponsePoller;
  #closed = false;

  constructor(
    redis: Redis,
    wire: { readonly dialect: Dialect; readonly clock: RedisClock },
    options: Required<ClientOptions>,
  ) {
    this.redis = redis;
    this.dialect = wire.dialect;
    this.clock = wire.clock;
    this.options = options;
    this.#receivers = new PendingTable((error, text) =>
      redis.logger.warn({ err: error, text }, "an answer is not understood"),
    );
    this.replyList = wire.dialect.keys.reply(this.#receivers.ids.client);
    this.directory = new Directory(redis, wire.dialect.keys);
    this.#pushes = new PushBuffer(redis, {
      push: wire.dialect.push,
      repeatable: false,
      onError: (error, texts, list) => this.#notSent(error, texts, list),
    });
    this.inbox = new ReplyReader({
      redis,
      dialect: wire.dialect,
      replyList: this.replyList,
      pushes: this.#pushes,
      modern: !options.plainPop && hasBlmpop(redis),
      onReplies: (texts) => this.#receivers.receiveAll(texts),
      onGap: () => this.#gap(),
    });
    this.#looker = new ResponsePoller(this, this.#receivers);
  }

  get inFlight(): number {
    return this.#receivers.size;
  }

  get routes(): Iterable<Route> {
    return this.#routes.values();
  }

  /** The route of "service.method". */
  route(target: string): Route {
    return this.#routes.get(target) ?? this.routeOf(splitTarget(this.dialect, target), target);
  }

  routeOf(name: { service: string; method: string }, cachedAs: string): Route {
    let route = this.#routes.get(cachedAs);
    if (route === undefined) {
      route = new Route(this.dialect, this.#metrics, name);
      route.plainMiddle = this.dialect.plainMiddle(route.method, this.replyList);
      this.#routes.set(cachedAs, route);
    }
    return route;
  }

  /** Whether answers of this service come in the reply list. */
  usesReplyList(service: string): boolean {
    const { replies } = this.options;
    if (replies !== "auto") return replies === "list";
    return this.dialect.name === "jsonrpc" && this.directory.allUseReplyLists(service);
  }

  /** A new id; a short one if only workers of ours will see it. */
  nextId(short: boolean): string {
    return this.#receivers.ids.next(short);
  }

  /** The deadline on the wire for something that may take so long. */
  deadlineIn(ms: number): number {
    return Math.ceil(this.clock.now() + ms);
  }

  /** Sends a call and waits for its answer. */
  send(route: Route, params: unknown, options: SendOptions): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const shared = this.usesReplyList(route.service);
      const pending = new PendingCall(this, route, this.nextId(shared));
      pending.number = this.#receivers.ids.last;
      pending.settles(resolve, reject);
      pending.timeoutMs = options.timeoutMs;
      const plain = shared && isPlain(options);
      const text =
        plain && route.plainMiddle !== undefined
          ? this.#preparePlain(pending, route.plainMiddle, params)
          : this.#prepareAny(pending, shared, { params, ...options });
      this.#pushes.push(route.list, text, this.requestTtl(options.timeoutMs));
    });
  }

  /** The short way, for the calls that come by the hundred thousand. */
  #preparePlain(pending: PendingCall, middle: string, params: unknown): string {
    const head = writeHead(this.deadlineIn(pending.timeoutMs), pending.id);
    const { method } = pending.route;
    const text = this.#bounded(`${head}${middle}${paramsJson(method, params)}}`, method);
    this.#await(pending);
    this.#expectReply(pending);
    return text;
  }

  #prepareAny(
    pending: PendingCall,
    shared: boolean,
    options: SendOptions & { readonly params: unknown },
  ): string {
    const { params, onProgress, traceparent, repeatable, signal } = options;
    pending.extras = { onProgress, failsOnLoss: repeatable === true };
    const track = onProgress !== undefined;
    const text = this.prepare(pending, shared, { params, track, traceparent });
    if (signal !== undefined) this.#cancelWhen(signal, pending); // last: nothing throws after it
    return text;
  }

  /** Registers a call as waiting and gives its text; the caller pushes it. */
  prepare(
    pending: PendingCall,
    shared: boolean,
    more: Pick<OutgoingCall, "params" | "track" | "traceparent" | "session">,
  ): string {
    const { id, route, timeoutMs } = pending;
    const text = this.encode({
      id,
      method: route.method,
      params: more.params,
      deadline: this.deadlineIn(timeoutMs),
      replyTo: shared ? this.replyList : undefined,
      track: more.track,
      traceparent: more.traceparent,
      session: more.session,
    });
    pending.extras.text = text;
    this.#await(pending);
    if (shared) this.#expectReply(pending);
    else this.#watch(pending);
    return text;
  }

  /** The text of a call, within its bounds. */
  encode(call: OutgoingCall): string {
    try {
      return this.#bounded(this.dialect.encodeCall(call), call.method);
    } catch (error) {
      throw paramsError(call.method, error);
    }
  }

  #bounded(text: string, method: string): string {
    const over = bytesOver(text, this.options.maxMessageBytes);
    if (over === undefined) return text;
    throw new MessageTooLargeError(`the call of ${method}`, over, this.options.maxMessageBytes);
  }

  /** From here on the call is answered, expires, or is given up. */
  #await(pending: PendingCall): void {
    this.register(pending);
    this.wheel.set(pending, pending.timeoutMs, pending.sentAt);
  }

  #expectReply(pending: PendingCall): void {
    pending.nextLookAt = pending.sentAt + LOOK_EVERY_MS;
    this.#looker.start();
    this.inbox.start();
  }

  /** Delivers what comes under the receiver's id to it, until forget(). */
  register(receiver: Receiver): void {
    if (this.#closed) throw new RpcClosedError("the client");
    this.#receivers.add(receiver);
  }

  forget(receiver: Receiver): void {
    this.#receivers.delete(receiver);
  }

  /** Pushes a message with whatever else leaves now. */
  post(list: string, text: string): void {
    this.#pushes.push(list, text, CONTROL_TTL_SECONDS);
  }

  /** Pushes a call that nobody here waits for; resolves when Redis has it. */
  async deliver(list: string, text: string, ttlSeconds: number | undefined): Promise<void> {
    if (this.#closed) throw new RpcClosedError("the client");
    try {
      await this.#pushes.pushed(list, text, ttlSeconds);
    } catch (error) {
      throw isReply(error, "WRONGTYPE") ? new WrongKeyTypeError(list, error) : error;
    }
  }

  /** How long the request list has to live, in wires where it does not live for ever. */
  requestTtl(timeoutMs: number): number | undefined {
    const { requestTtlSeconds } = this.dialect;
    if (requestTtlSeconds === undefined) return undefined;
    return Math.max(requestTtlSeconds, Math.ceil(timeoutMs / 1_000));
  }

  /** Gives a pending call up: it is taken out of the queue, or its worker is told. */
  async cancel(pending: PendingCall, reason: unknown): Promise<void> {
    if (!this.#receivers.has(pending)) return;
    pending.fail(reason);
    const [removed] = await this.redis.run(
      move,
      [pending.extras.list ?? pending.route.list, pending.route.list],
      [pending.extras.text as string, ""],
    );
    if (removed === 0) await this.tellWorkers(pending.route.service, cancelText(pending.id));
  }

  /** Sends a control message to every live worker of a service. */
  async tellWorkers(service: string, text: string): Promise<void> {
    for (const { ctl } of await this.directory.workers(service, 1_000)) {
      if (ctl !== undefined) this.post(ctl, text);
    }
  }

  answered(call: PendingCall): void {
    this.#receivers.delete(call);
    this.wheel.clear(call);
    const { onSettled, responseKey, progressKey } = call.extras;
    onSettled?.();
    if (responseKey !== undefined) this.inbox.unwatch(responseKey);
    if (progressKey !== undefined) this.inbox.unwatch(progressKey);
  }

  expired(call: PendingCall): void {
    call.fail(new DeadlineExceededError(`the call of ${call.route.name}`, call.timeoutMs));
  }

  decode(message: Readonly<Record<string, unknown>>): IncomingAnswer | undefined {
    return this.dialect.decodeAnswer(message);
  }

  failure(error: unknown): RpcError {
    return errorFromWire(error);
  }

  progress(message: Readonly<Record<string, unknown>>): Progress {
    return this.dialect.decodeProgress(message);
  }

  async close(): Promise<void> {
    this.#closed = true;
    const closed = new RpcClosedError("the client");
    for (const receiver of [...this.#receivers]) receiver.fail(closed);
    this.#looker.stop();
    await this.#pushes.drained();
    await this.inbox.close();
    const { replyList } = this;
    await this.redis.send(["DEL", replyList], { key: replyList, repeatable: true });
  }

  #cancelWhen(signal: AbortSignal, pending: PendingCall): void {
    const onAbort = () => {
      const reason = new CancelledError(`the call of ${pending.route.name}`, signal.reason);
      this.cancel(pending, reason).catch((error) =>
        this.redis.logger.debug({ err: error, id: pending.id }, "cannot cancel a call"),
      );
    };
    pending.extras.onSettled = () => signal.removeEventListener("abort", onAbort);
    signal.addEventListener("abort", onAbort, { once: true });
  }

  #watch(pending: PendingCall): void {
    const { keys } = this.dialect;
    const { id, route, extras } = pending;
    const refuse = (error: unknown) => pending.fail(error);
    extras.responseKey = keys.response(route.method, id);
    if (extras.onProgress === undefined) {
      const receive = (text: string) => receiveAnswer(pending, text);
      this.inbox.watch(extras.responseKey, { receive, refuse });
      return;
    }
    const progressKey = keys.progress(route.method, id);
    const report = (text: string) => receiveAnswer(pending, `{"progress":${text}}`);
    extras.progressKey = progressKey;
    this.inbox.watch(progressKey, { receive: report, refuse });
    this.inbox.watch(extras.responseKey, {
      refuse,
      // The last reports may still lie in their list when the answer comes.
      receive: (text) =>
        void this.inbox
          .look([progressKey])
          .then((found) => found.flatMap(([, texts]) => texts).forEach(report), refuse)
          .then(() => receiveAnswer(pending, text)),
    });
  }

  #notSent(error: unknown, texts: readonly string[], list: string): void {
    const unknown = error instanceof ConnectionLostError;
    const reason = isReply(error, "WRONGTYPE") ? new WrongKeyTypeError(list, error) : error;
    for (const text of texts) {
      const receiver = this.#receivers.get(readHead(text)?.id);
      // It may have arrived, and then its answer will come; its deadline decides if not.
      const again = receiver instanceof PendingCall && receiver.extras.failsOnLoss === true;
      if (unknown && !again) continue;
      receiver?.fail(reason);
    }
  }

  /** What was popped for us when the connection broke is gone: workers remember it for a while. */
  #gap(): void {
    const missing = new Map<string, string[]>();
    for (const receiver of this.#receivers) {
      receiver.onGap();
      if (!(receiver instanceof PendingCall) || receiver.extras.responseKey !== undefined) continue;
      const { service } = receiver.route;
      const ids = missing.get(service);
      if (ids === undefined) missing.set(service, [receiver.id]);
      else ids.push(receiver.id);
    }
    for (const [service, again] of missing) {
      this.tellWorkers(service, JSON.stringify({ again })).catch((error) =>
        this.redis.logger.debug({ err: error, service }, "cannot ask for lost answers"),
      );
    }
  }
}

/** The control message that gives a call up. */
export function cancelText(id: string): string {
  return JSON.stringify({ id, cancel: true });
}

/** Whether nothing is asked for but the answer. */
function isPlain({ onProgress, repeatable, signal, traceparent }: SendOptions): boolean {
  return (
    onProgress === undefined && !repeatable && signal === undefined && traceparent === undefined
  );
}
