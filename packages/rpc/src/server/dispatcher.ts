/**
 * Turns one popped text into one answer.
 *
 *   text --> outdated? --yes--> DEADLINE_EXCEEDED, without parsing
 *              |no
 *            parse --not a call--> answered if it has an id, else set aside
 *              |
 *            cancelled meanwhile? --yes--> CANCELLED
 *              |no
 *            validate --> middleware --> handler --> value      one answer
 *                                               `--> iterable   a stream, or all of it as one array
 *
 * Nothing a message contains may throw out of here: the loop that pops must go on.
 */
import { context, trace } from "@opentelemetry/api";
import type { Redis } from "@ropeway/core";
import { contextOf, inSpan, tracerOf } from "@ropeway/core/internal";
import {
  CancelledError,
  DeadlineExceededError,
  errorForWire,
  InvalidResultError,
  MessageTooLargeError,
  MethodNotFoundError,
  type RpcError,
  ServerClosingError,
  SessionLostError,
} from "../errors.ts";
import { dead } from "../keys.ts";
import { Recent } from "../recent.ts";
import { readInput, readOutput } from "../service/service.ts";
import type { Popped } from "../store/list-popper.ts";
import { isAsyncIterable, type ServerStreams } from "../stream/server-streams.ts";
import { Metrics } from "../telemetry/metrics.ts";
import { bytesOver } from "../wire/choose-dialect.ts";
import type { Dialect, IncomingCall } from "../wire/dialect.ts";
import { readDeadline, readHead } from "../wire/head.ts";
import { type ContextHost, RunningCall, type SessionInfo } from "./call-context.ts";
import type { ReplyWriter } from "./reply-writer.ts";
import type { Middleware, ServedMethod, Source } from "./served-service.ts";

/** What a dispatcher is given. */
export interface DispatcherOptions {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly desk: ReplyWriter;
  readonly streams: ServerStreams;
  readonly host: ContextHost;
  readonly maxMessageBytes: number;
  readonly middleware: readonly Middleware[];
  /** The clock's possible error: only what is surely outdated is refused. */
  clockErrorMs(): number;
  /** Whether this node may still serve a session call that it got at this time. */
  mayServeSessions(gotAt: number): boolean;
  onSlotFreed(): void;
}

/** Handlers that have kept the process for so long have to let others have a turn. */
const TURN_MS = 10;
const CANCELLED_AT_MOST = 10_000;
const SESSIONS_AT_MOST = 100_000;

/** See the top of the file. */
export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #metrics = new Metrics("server");
  /** Calls that wait for something; those whose handler answers at once never come in here. */
  readonly #running = new Set<Run>();
  /** Ids cancelled before their call came. */
  readonly #cancelled = new Recent<string, true>(CANCELLED_AT_MOST);
  /** The epoch of each session seen here. */
  readonly #sessions = new Recent<string, number>(SESSIONS_AT_MOST);
  /** When the calls that are being started were got. */
  #gotAt = 0;
  /** When the latest call was begun. */
  #beganLast = 0;
  /** Totals for stats(). */
  expired = 0;
  setAside = 0;
  parsed = 0;

  constructor(options: DispatcherOptions) {
    this.#options = options;
  }

  get active(): number {
    return this.#running.size;
  }

  /** Starts what was popped, from `first` on, as far as one event should go; returns where it stopped. */
  accept(source: Source, popped: Pick<Popped, "texts" | "at">, first: number = 0): number {
    const { texts } = popped;
    this.#gotAt = popped.at;
    const outdated = this.#options.host.now() - this.#options.clockErrorMs();
    const until = performance.now() + TURN_MS;
    let next = first;
    while (next < texts.length) {
      this.#acceptOne(source, texts[next++] as string, outdated);
      if (this.#beganLast > until) break;
    }
    return next;
  }

  /** Gives up a running call, or one that has not come yet. */
  cancel(id: string): void {
    let found = false;
    // Not by id: callers of others may give one id to several calls, and each of them takes a slot.
    for (const { call, running } of this.#running) {
      if (call.id !== id) continue;
      running.abort();
      found = true;
    }
    if (!found) this.#cancelled.note(id, true);
  }

  /** Aborts the running calls for which `test` holds. */
  abortWhere(test: (source: Source) => boolean, reason: RpcError): void {
    for (const { running, source } of this.#running) {
      if (test(source)) running.abort(reason);
    }
  }

  #acceptOne(source: Source, text: string, outdated: number): void {
    const deadline = readDeadline(text);
    if (deadline !== undefined && deadline < outdated && this.#refuseUnread(source, text)) return;
    let call: IncomingCall;
    try {
      this.parsed += 1;
      call = this.#options.dialect.decodeCall(text, source.method);
    } catch (error) {
      this.#refuseMalformed(source, text, error as RpcError);
      return;
    }
    if (call.deadline !== undefined && call.deadline < outdated) {
      this.#expire(source, text, call);
      return;
    }
    this.#begin(source, text, call);
  }

  /** An outdated call costs a few comparisons; false if its head cannot be read after all. */
  #refuseUnread(source: Source, text: string): boolean {
    const head = readHead(text);
    if (head === undefined) return false;
    const { id, replyTo, silent } = head;
    this.#expire(source, text, { id, replyTo, method: source.method ?? "", notification: silent });
    return true;
  }

  #expire(source: Source, text: string, call: Answerable): void {
    this.expired += 1;
    this.#metrics.expired(source.service.name);
    this.#refuse(source, text, { call, error: new DeadlineExceededError("the call") });
  }

  #refuseMalformed(source: Source, text: string, error: RpcError): void {
    const { id } = error.details as { id?: string };
    if (id !== undefined) {
      const call = { id, method: source.method ?? "", replyTo: undefined, notification: false };
      this.#refuse(source, text, { call, error });
      return;
    }
    this.setAside += 1;
    this.#metrics.setAside(source.service.name);
    const { redis } = this.#options;
    const list = dead(source.list);
    redis.logger.warn({ err: error, list }, "a message without a usable id was set aside");
    const note = JSON.stringify({
      time: Math.round(this.#options.host.now()),
      reason: error.message,
      raw: text,
    });
    const kept = Promise.all([
      redis.send(["LPUSH", list, note], { key: list }),
      redis.send(["LTRIM", list, "0", "999"], { key: list, repeatable: true }),
      source.durable?.settle(text, { list, text: "" }),
    ]);
    kept.catch((cause) => redis.logger.error({ err: cause, list }, "cannot set a message aside"));
  }

  #begin(source: Source, text: string, call: IncomingCall): void {
    const method = source.service.methods.get(call.method);
    const refusal = this.#refusal(source, call, method);
    if (refusal !== undefined || method === undefined) {
      this.#refuse(source, text, { call, error: refusal as RpcError });
      return;
    }
    const where = { service: source.service.name, session: this.#session(source, call) };
    const running = new RunningCall(this.#options.host, call, where);
    if (streams(call)) this.#options.streams.open(running, method);
    const began = performance.now();
    this.#beganLast = began;
    const run: Run = { source, text, call, method, running, began };
    if (call.traceparent !== undefined) void this.#runTraced(run, call.traceparent);
    else this.#run(run);
  }

  #refusal(
    source: Source,
    call: IncomingCall,
    method: ServedMethod | undefined,
  ): RpcError | undefined {
    if (method === undefined) return new MethodNotFoundError(source.service.name, call.method);
    if (this.#cancelled.forget(call.id)) return new CancelledError(call.method);
    if (source.group !== undefined && !this.#options.mayServeSessions(this.#gotAt)) {
      return new SessionLostError(source.group);
    }
    return undefined;
  }

  #session(source: Source, call: IncomingCall): SessionInfo | undefined {
    const { group } = source;
    if (group === undefined) return undefined;
    if (call.session === undefined) {
      return { group, client: undefined, isNew: false, epoch: undefined };
    }
    const { client, epoch } = call.session;
    const isNew = this.#sessions.get(client) !== epoch;
    this.#sessions.note(client, epoch);
    return { group, client, isNew, epoch };
  }

  async #runTraced(run: Run, traceparent: string): Promise<void> {
    this.#running.add(run);
    const name = `${run.source.service.name}.${run.method.name}`;
    const parent = contextOf(traceparent);
    const span = tracerOf("rpc").startSpan(name, { kind: 1 }, parent);
    try {
      await context.with(trace.setSpan(parent, span), () =>
        inSpan(span, () => this.#invoke(run).then((value) => this.#complete(run, value))),
      );
    } catch (error) {
      this.#fail(run, error);
    }
  }

  /** Without a promise as long as nothing needs one: most handlers answer at once. */
  #run(run: Run): void {
    try {
      const value =
        this.#options.middleware.length === 0 && run.method.input === undefined
          ? run.method.handler(run.call.params, run.running)
          : this.#invoke(run);
      if (!isThenable(value)) {
        this.#completeNow(run, value);
        return;
      }
      this.#running.add(run);
      value.then(
        (settled) => this.#completeNow(run, settled),
        (error) => this.#fail(run, error),
      );
    } catch (error) {
      this.#fail(run, error);
    }
  }

  async #invoke(run: Run): Promise<unknown> {
    const { method, call, running } = run;
    const input = await readInput(method, call.params);
    const { middleware } = this.#options;
    const step = async (at: number): Promise<unknown> => {
      const layer = middleware[at];
      return layer === undefined
        ? method.handler(input, running)
        : layer(running, () => step(at + 1));
    };
    return step(0);
  }

  #completeNow(run: Run, value: unknown): void {
    if (isAsyncIterable(value) || run.method.output !== undefined) {
      this.#running.add(run);
      this.#complete(run, value).catch((error) => this.#fail(run, error));
      return;
    }
    try {
      this.#succeed(run, value);
    } catch (error) {
      this.#fail(run, error);
    }
  }

  async #complete(run: Run, value: unknown): Promise<void> {
    const { method, call, running } = run;
    if (!isAsyncIterable(value)) {
      this.#succeed(run, await readOutput(method.name, method.output, value));
      return;
    }
    if (!streams(call)) {
      this.#succeed(run, await gather(method, value, running));
      return;
    }
    const error = await this.#options.streams.send(run.running, value, method);
    this.#finish(run, error !== undefined);
    await run.source.durable?.settle(run.text, { list: run.source.list, text: "" });
  }

  #succeed(run: Run, value: unknown): void {
    const { method, call, source, text } = run;
    if (run.running.aborted !== undefined && source.group !== undefined) throw run.running.aborted;
    let json: string;
    try {
      json = JSON.stringify(value) ?? "null";
    } catch (error) {
      throw new InvalidResultError(method.name, "it cannot be written as JSON", { cause: error });
    }
    const { desk, maxMessageBytes } = this.#options;
    const over = bytesOver(json, maxMessageBytes);
    if (over !== undefined) throw new MessageTooLargeError("the result", over, maxMessageBytes);
    this.#finish(run, false);
    if (streams(call)) this.#options.streams.drop(call.id);
    this.#settle(source, text, {
      list: desk.listFor(call),
      text: call.notification ? "" : desk.result(call, json),
    });
  }

  #fail(run: Run, thrown: unknown): void {
    const { call, source, text, running } = run;
    // What a handler throws because it was told to stop is the reason it was told.
    const error = errorForWire(running.aborted ?? thrown);
    this.#options.redis.logger.debug({ err: thrown, id: call.id }, "a call failed");
    this.#finish(run, true);
    if (streams(call)) this.#options.streams.drop(call.id);
    // Not answered, it stays in flight, and another worker begins it anew.
    if (source.durable !== undefined && running.aborted instanceof ServerClosingError) return;
    this.#refuse(source, text, { call, error });
  }

  #finish(run: Run, failed: boolean): void {
    const ms = performance.now() - run.began;
    run.running.finish();
    if (this.#running.size > 0 && this.#running.delete(run)) this.#options.onSlotFreed();
    run.method.stats.record(ms, failed);
    const { ok, failed: bad } = run.method.attributes;
    this.#metrics.duration(ms, failed ? bad : ok);
  }

  #refuse(source: Source, text: string, refused: { call: Answerable; error: RpcError }): void {
    const { call, error } = refused;
    const { desk } = this.#options;
    this.#settle(source, text, {
      list: desk.listFor(call),
      text: call.notification ? "" : desk.error(call, error.toWire()),
    });
  }

  #settle(source: Source, call: string, answer: { list: string; text: string }): void {
    const { desk, redis } = this.#options;
    if (source.durable === undefined) {
      if (answer.text !== "") desk.post(answer.list, answer.text);
      return;
    }
    if (answer.text !== "") desk.remember(answer.list, [answer.text]);
    source.durable.settle(call, answer).then(
      (ours) => {
        if (!ours) redis.logger.warn({ list: source.list }, "another worker had taken a call over");
      },
      (error) => redis.logger.error({ err: error, list: source.list }, "cannot settle a call"),
    );
  }
}

interface Run {
  readonly source: Source;
  readonly text: string;
  readonly call: IncomingCall;
  readonly method: ServedMethod;
  readonly running: RunningCall;
  readonly began: number;
}

type Answerable = Pick<IncomingCall, "id" | "method" | "replyTo" | "notification">;

/** Whether the caller wants, and can take, a stream. */
function streams(call: IncomingCall): boolean {
  return call.window !== undefined && call.replyTo !== undefined;
}

/** The whole stream as one array, for callers that cannot read streams. */
async function gather(
  method: ServedMethod,
  items: AsyncIterable<unknown>,
  running: RunningCall,
): Promise<unknown[]> {
  const all: unknown[] = [];
  for await (const item of items) {
    if (running.aborted !== undefined) throw running.aborted;
    all.push(await readOutput(method.name, method.output, item));
  }
  return all;
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === "function";
}
