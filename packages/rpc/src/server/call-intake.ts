/**
 * Takes popped texts and starts their calls, or refuses them:
 *
 *   text --> outdated? --yes--> DEADLINE_EXCEEDED, without parsing
 *              |no
 *            parse --not a call--> refused if it has an id, else moved to the dead list
 *              |
 *            overloaded? cancelled meanwhile? session lost? unknown method? --yes--> refused
 *              |no
 *            CallRunner
 *
 * No content of a message may throw out of here, because the popping loop must continue.
 */
import { OverloadedError, type Redis, type RopewayError } from "@ropeway/core";
import { show } from "@ropeway/core/internal";
import {
  CancelledError,
  DeadlineExceededError,
  MethodNotFoundError,
  ParseError,
  RpcError,
  SessionLostError,
} from "../errors.ts";
import { dead } from "../keys.ts";
import { Recent } from "../recent.ts";
import type { CallStore } from "../store/call-store.ts";
import type { Popped } from "../store/list-popper.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Dialect, IncomingCall } from "../wire/dialect.ts";
import { readDeadline, readHead } from "../wire/head.ts";
import type { Answerable, CallRunner } from "./call-runner.ts";
import type { LoadShedder } from "./load-shedder.ts";
import type { ServedMethod, Source } from "./served-service.ts";
import { SessionCall, type SessionHistory } from "./session-call.ts";

/** The options of an intake. */
export interface CallIntakeOptions {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly store: CallStore;
  readonly runner: CallRunner;
  readonly metrics: Metrics;
  readonly shedder: LoadShedder | undefined;
  /** Redis time. */
  now(): number;
  /** The possible error of the clock. Only calls that are certainly outdated are refused. */
  clockErrorMs(): number;
  /** Whether this node may still serve a session call that it received at this time. */
  mayServeSessions(gotAt: number): boolean;
  onSetAside(list: string, reason: RpcError): void;
  onShed(service: string): void;
}

/** Handlers that occupied the process for this long let others run. */
const TURN_MS = 10;
const CANCELLED_AT_MOST = 10_000;
const SESSIONS_AT_MOST = 100_000;

/** The entry of all calls of a worker. */
export class CallIntake {
  readonly #options: CallIntakeOptions;
  /** Ids that were cancelled before their call arrived. */
  readonly #cancelled = new Recent<string, true>(CANCELLED_AT_MOST);
  /** The sessions seen here. */
  readonly #sessions = new Recent<string, KnownSession>(SESSIONS_AT_MOST);
  /** When the calls that are being started were popped. */
  #gotAt = 0;
  /** Totals for stats(). */
  expired = 0;
  setAside = 0;
  parsed = 0;
  shed = 0;

  constructor(options: CallIntakeOptions) {
    this.#options = options;
  }

  /** Starts popped calls from `first` on, as many as fit into one event. Returns where it stopped. */
  accept(source: Source, popped: Pick<Popped, "texts" | "at">, first: number = 0): number {
    const { texts } = popped;
    this.#gotAt = popped.at;
    const now = this.#options.now();
    const outdated = now - this.#options.clockErrorMs();
    const { runner } = this.#options;
    runner.now = performance.now();
    const until = runner.now + TURN_MS;
    let next = first;
    while (next < texts.length) {
      this.#acceptOne(source, texts[next++] as string, { now, outdated });
      if (runner.now > until) break;
    }
    return next;
  }

  /** Cancels a running call, or one that has not arrived yet. */
  cancel(id: string): void {
    if (!this.#options.runner.cancel(id)) this.#cancelled.note(id, true);
  }

  /** Refuses calls of a queue that is too long. */
  refuseAll(source: Source, texts: readonly string[]): void {
    for (const text of texts) {
      const head = readHead(text);
      const call = head === undefined ? this.#decode(source, text) : headCall(source, head);
      if (call !== undefined) this.#shed(source, text, { call, why: "too many calls are waiting" });
    }
  }

  #acceptOne(source: Source, text: string, time: { now: number; outdated: number }): void {
    const deadline = readDeadline(text);
    if (deadline !== undefined && deadline < time.outdated) {
      const head = readHead(text);
      if (head !== undefined) {
        this.#expire(source, text, headCall(source, head)); // costs only a few comparisons
        return;
      }
    }
    const call = this.#decode(source, text, deadline);
    if (call === undefined) return;
    if (call.deadline !== undefined && call.deadline < time.outdated) {
      this.#expire(source, text, call);
      return;
    }
    const why = this.#options.shedder?.refusal(source.list, call, time.now);
    if (why !== undefined) this.#shed(source, text, { call, why });
    else this.#start(source, text, call);
  }

  #decode(source: Source, text: string, deadline?: number): IncomingCall | undefined {
    try {
      this.parsed += 1;
      return this.#options.dialect.decodeCall(text, source.method, deadline);
    } catch (error) {
      const refused = error instanceof RpcError ? error : new ParseError(text, error);
      this.#refuseMalformed(source, text, refused);
      return undefined;
    }
  }

  #expire(source: Source, text: string, call: Answerable): void {
    this.expired += 1;
    this.#options.metrics.expired(source.service.name);
    const error = new DeadlineExceededError("the call");
    this.#options.runner.refuse(source, text, { call, error });
  }

  #shed(source: Source, text: string, refused: { call: Answerable; why: string }): void {
    const { name } = source.service;
    this.shed += 1;
    this.#options.metrics.shed(name);
    this.#options.onShed(name);
    const error = new OverloadedError(`service ${show(name)}`, refused.why);
    this.#options.runner.refuse(source, text, { call: refused.call, error });
  }

  #refuseMalformed(source: Source, text: string, error: RpcError): void {
    const { id } = error.details as { id?: string };
    const { redis, store, runner } = this.#options;
    if (id !== undefined) {
      // To its reply list, if its head names one: a response elsewhere would look like that of another program.
      const replyTo = readHead(text)?.replyTo;
      const call = { id, method: source.method ?? "", replyTo, notification: false };
      runner.refuse(source, text, { call, error });
      return;
    }
    this.setAside += 1;
    this.#options.metrics.setAside(source.service.name);
    const list = dead(source.list);
    this.#options.onSetAside(list, error);
    const time = Math.round(this.#options.now());
    const note = JSON.stringify({ time, reason: error.message, raw: text });
    const kept = Promise.all([
      store.deadLetter(list, note),
      source.durable?.settle(text, { list, text: "" }),
    ]);
    kept.catch((cause) =>
      redis.logger.error({ err: cause, list }, "cannot move a message to the dead list"),
    );
  }

  #start(source: Source, text: string, call: IncomingCall): void {
    const method = source.service.methods.get(call.method);
    const session = this.#session(source, call);
    const error = this.#refusal(source, call, { method, session });
    const { runner } = this.#options;
    if (error !== undefined) {
      runner.refuse(source, text, { call, error });
      return;
    }
    runner.start({ source, text, call, method: method as ServedMethod, session: session?.call });
  }

  #refusal(
    source: Source,
    call: IncomingCall,
    found: { method: ServedMethod | undefined; session: FoundSession | undefined },
  ): RopewayError | undefined {
    const { group, service } = source;
    if (found.method === undefined) return new MethodNotFoundError(service.name, call.method);
    if (this.#cancelled.size > 0 && this.#cancelled.forget(call.id))
      return new CancelledError(call.method);
    if (group === undefined) return undefined;
    const lost = found.session?.outdated || !this.#options.mayServeSessions(this.#gotAt);
    return lost ? new SessionLostError(group, false) : undefined;
  }

  /** A call of an older mapping than the newest one seen here is outdated: its session has moved. */
  #session(source: Source, call: IncomingCall): FoundSession | undefined {
    const { group } = source;
    if (group === undefined) return undefined;
    if (call.session === undefined) {
      return { call: new SessionCall(group, undefined, undefined), outdated: false };
    }
    const { client, epoch } = call.session;
    const known = this.#sessions.obtain(client, () => ({ seen: epoch, run: undefined }));
    const outdated = epoch < known.seen;
    if (!outdated) known.seen = epoch;
    return { call: new SessionCall(group, call.session, known), outdated };
  }
}

interface KnownSession extends SessionHistory {
  /** The largest epoch of its calls. */
  seen: number;
}

interface FoundSession {
  readonly call: SessionCall;
  readonly outdated: boolean;
}

function headCall(source: Source, head: NonNullable<ReturnType<typeof readHead>>): Answerable {
  const { id, replyTo, silent } = head;
  return { id, replyTo, method: source.method ?? "", notification: silent };
}
