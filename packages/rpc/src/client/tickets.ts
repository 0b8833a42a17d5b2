/**
 * Responses and progress of submitted calls. They are read without being removed, because a response must
 * survive the process that polls for it, and any number of processes may poll for one ticket. Redis has no
 * blocking command that does not remove, so the client polls while a caller waits: quickly at first, then
 * four times a second, with one command for all tickets.
 */
import { ClosedError } from "@ropeway/core";
import { CancelledError, errorFromWire, ParseError, toWire } from "../errors.ts";
import type { Peeked, PeekKeys } from "../store/call-store.ts";
import type { Progress } from "../wire/dialect.ts";
import { pause } from "./cancellation.ts";
import { cancelText } from "./control.ts";
import type { Exchange } from "./exchange.ts";
import type { Router } from "./router.ts";
import { readTicket } from "./ticket.ts";

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 250;
const PER_PEEK = 100;
/** How many waiting calls are searched for a cancelled one. */
const SEARCHED = 10_000;

/** A result, wrapped so that a null result differs from no result. */
export interface PollResult {
  readonly result: unknown;
}

/** The tickets of one client. */
export class Tickets {
  readonly #exchange: Exchange;
  readonly #router: Router;
  readonly #closing: AbortSignal;
  #queue: {
    readonly keys: PeekKeys;
    resolve(p: Peeked): void;
    reject(e: unknown): void;
  }[] = [];

  constructor(exchange: Exchange, router: Router, closing: AbortSignal) {
    this.#exchange = exchange;
    this.#router = router;
    this.#closing = closing;
  }

  /** The result, or null if there is none within `waitMs`. Throws the error of a failed call. */
  async poll(ticket: string, waitMs: number, signal?: AbortSignal): Promise<PollResult | null> {
    const keys = this.#keysOf(ticket);
    const until = performance.now() + waitMs;
    for (let delay = FIRST_PAUSE_MS; ; delay = Math.min(delay * 1.5, LONGEST_PAUSE_MS)) {
      const { response } = await this.#peek({ ...keys, seen: 0 });
      if (response !== undefined) return this.#read(response);
      const left = until - performance.now();
      if (left <= 0) return null;
      await this.#pause(Math.min(delay, left), signal);
    }
  }

  /** Progress reports until the call has ended, or none came for `idleMs`. */
  async *progress(ticket: string, idleMs: number, signal?: AbortSignal): AsyncGenerator<Progress> {
    const keys = this.#keysOf(ticket);
    const { dialect } = this.#exchange;
    let seen = 0;
    let heardAt = performance.now();
    for (let delay = FIRST_PAUSE_MS; ; delay = Math.min(delay * 1.5, LONGEST_PAUSE_MS)) {
      const { response, reports } = await this.#peek({ ...keys, seen });
      for (const text of reports) {
        const report = parse(text);
        if (report.end === true) return;
        seen += 1;
        heardAt = performance.now();
        delay = FIRST_PAUSE_MS;
        yield dialect.decodeProgress(report);
      }
      if (reports.length > 0) continue;
      if (response !== undefined || performance.now() - heardAt > idleMs) return;
      await this.#pause(delay, signal);
    }
  }

  /** Cancels a submitted call: removes it from its queue, or cancels it in the workers. */
  async cancel(ticket: string): Promise<void> {
    const { target, id } = readTicket(ticket);
    const { list, service, method } = this.#router.route(target);
    const { store, dialect } = this.#exchange;
    if (!(await store.withdrawById(list, id, SEARCHED))) {
      await this.#exchange.tellWorkers(service, cancelText(id));
      return;
    }
    // Callers that poll for it get the error that a worker would have sent.
    const error = new CancelledError(`the call of ${target}`);
    this.#exchange.post(
      dialect.keys.response(method, id),
      dialect.encodeError(id, toWire(error), false),
    );
  }

  #read(text: string): PollResult {
    const response = this.#exchange.dialect.decodeResponse(parse(text));
    if (response === undefined) throw new ParseError(text);
    if (response.error !== undefined) throw errorFromWire(response.error);
    return { result: response.result };
  }

  /** The keys of the response and the reports. Throws for an invalid ticket, before it is combined with others. */
  #keysOf(ticket: string): Omit<PeekKeys, "seen"> {
    const { target, id } = readTicket(ticket);
    const { dialect } = this.#exchange;
    const { method } = dialect.target(target);
    return {
      response: dialect.keys.response(method, id),
      progress: dialect.keys.progress(method, id),
    };
  }

  /** All requests of one event become one command. */
  #peek(keys: PeekKeys): Promise<Peeked> {
    return new Promise((resolve, reject) => {
      this.#queue.push({ keys, resolve, reject });
      if (this.#queue.length === 1) process.nextTick(() => void this.#ask());
    });
  }

  async #ask(): Promise<void> {
    const waiting = this.#queue;
    this.#queue = [];
    for (let at = 0; at < waiting.length; at += PER_PEEK) {
      const some = waiting.slice(at, at + PER_PEEK);
      try {
        const found = await this.#exchange.store.peek(some.map(({ keys }) => keys));
        for (const [i, each] of some.entries()) each.resolve(found[i] as Peeked);
      } catch (error) {
        for (const each of some) each.reject(error);
      }
    }
  }

  async #pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
    try {
      await Promise.race([pause(ms, signal), pause(ms, this.#closing)]);
    } catch (error) {
      throw this.#closing.aborted ? new ClosedError("the client") : error;
    }
  }
}

function parse(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null) return value as Record<string, unknown>;
  } catch {
    // reported below, together with JSON that is not an object
  }
  throw new ParseError(text);
}
