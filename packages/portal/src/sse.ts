/**
 * Live updates by server-sent events. A route hands its reply and a producer to serveEvents():
 *
 *   app.get("/api/jobs/events", { config: needs("job:view") }, (_request, reply) =>
 *     serveEvents(reply, async (stream) => {
 *       for await (const change of changesAfter(stream.lastEventId, stream.signal)) {
 *         await stream.send({ id: change.id, event: "change", data: change });
 *       }
 *     }));
 *
 *   open --+-- the producer returned or threw
 *          +-- the client went away                       --> closed: `signal` is aborted, no timer
 *          +-- the client does not read what it is sent        or listener is left
 *          +-- the stream is old: the client comes back
 *          |   with Last-Event-ID and shows again who it is
 *          +-- its session ended, or its caller lost the permission or a group: at once if this portal
 *          |   ended the session, else within a heartbeat
 *          +-- the portal closes: the client gets the time after which to reconnect
 *
 * Back-pressure: send() resolves when there is room again. A producer that does not wait for it can
 * buffer no more than MOST_BUFFERED and one event before its client is disconnected.
 *
 * A heartbeat sends a comment, which keeps proxies from cutting the connection and finds clients that are
 * gone, and checks the caller again. It is sent also while there are events, so that a caller who lost a permission
 * does not go on reading because there are many events.
 */
import { PassThrough } from "node:stream";
import { AbortedError, OverloadedError } from "@ropeway/core";
import { within } from "@ropeway/core/internal";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Caller } from "./access/authenticator.ts";
import { addressOf, placeOf } from "./access/place.ts";
import { InvalidEventError, TooManyStreamsError } from "./errors.ts";

/** One event; `data` that is not a string is sent as JSON. */
export interface StreamEvent {
  /** What a client that comes back sends as Last-Event-ID. */
  readonly id?: string;
  /** The event's type. @default "message" */
  readonly event?: string;
  readonly data: unknown;
}

/** How a stream behaves. */
export interface EventStreamOptions {
  /** How often a comment is sent, and the caller is checked again. @default 15000 */
  readonly heartbeatMs?: number;
  /** When the client should come back after the stream has ended. @default 2000 */
  readonly retryMs?: number;
  /** How long a client may leave a full buffer unread. @default 30000 */
  readonly stallMs?: number;
  /** After this time the client has to reconnect, and is authenticated again. @default 600000 */
  readonly maxAgeMs?: number;
}

const DEFAULTS: Required<EventStreamOptions> = {
  heartbeatMs: 15_000,
  retryMs: 2_000,
  stallMs: 30_000,
  maxAgeMs: 600_000,
};
const MOST_BUFFERED = 1_048_576;

/** Responds with a stream of the events that `produce` sends. The stream ends when `produce` ends. */
export function serveEvents(
  reply: FastifyReply,
  produce: (stream: EventStream) => Promise<void>,
  options?: EventStreamOptions,
): FastifyReply {
  reply.type("text/event-stream").header("x-accel-buffering", "no");
  if (reply.request.method === "HEAD") return reply.send("");
  const stream = reply.server.eventStreams.open(reply, { ...DEFAULTS, ...options });
  produce(stream).then(
    () => stream.close(),
    (error) => {
      // After the end of the stream, a producer is expected to fail.
      if (!stream.signal.aborted) reply.log.error({ err: error }, "an event stream failed");
      stream.close();
    },
  );
  return reply;
}

/** A stream that is being sent. */
export class EventStream {
  /** The id of the last event that the client has seen, if it was here before. */
  readonly lastEventId: string | undefined;
  /** Who opened it; null on a public route. */
  readonly caller: Caller | null;
  readonly #isAllowed: () => Promise<boolean>;
  readonly #options: Required<EventStreamOptions>;
  readonly #output = new PassThrough();
  readonly #abort = new AbortController();
  readonly #heartbeat: NodeJS.Timeout;
  readonly #retirement: NodeJS.Timeout;
  #draining: Promise<void> | undefined;

  /** @internal Made by serveEvents(). */
  constructor(reply: FastifyReply, plan: EventStreamPlan) {
    const { options, isAllowed } = plan;
    this.#options = options;
    const { request } = reply;
    this.#isAllowed = () => isAllowed(request);
    this.caller = request.caller;
    const given = request.headers["last-event-id"];
    this.lastEventId = typeof given === "string" && given !== "" ? given : undefined;
    this.#heartbeat = setInterval(() => this.#beat(), options.heartbeatMs).unref();
    this.#retirement = setTimeout(() => this.close(), options.maxAgeMs).unref();
    this.#output.once("close", () => this.#ended()); // the client went away, or all was sent
    this.#output.write(`retry: ${options.retryMs}\n\n`); // the headers go out with this
    reply.send(this.#output);
  }

  /** Aborted when the stream has ended, for whatever reason. */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Sends an event; resolves when there is room for the next, rejects when the stream has ended. */
  async send(event: StreamEvent): Promise<void> {
    const text = encode(event);
    if (this.signal.aborted) throw new AbortedError("an event stream");
    // Before this event: one that is larger than the limit is fine for a producer that waits.
    if (this.#output.writableLength > MOST_BUFFERED) {
      this.#giveUp();
      throw new OverloadedError("an event stream", "its client reads too slowly");
    }
    if (this.#output.write(text)) return;
    // All callers that wait share one wait.
    this.#draining ??= this.#drained().finally(() => {
      this.#draining = undefined;
    });
    await this.#draining;
  }

  /** Ends the stream when what was sent has arrived. */
  close(): void {
    this.#ended();
    this.#output.end();
  }

  async #drained(): Promise<void> {
    const drained = new Promise<void>((resolve) => this.#output.once("drain", resolve));
    const bounds = {
      timeoutMs: this.#options.stallMs,
      signal: this.signal,
      what: "an event stream",
    };
    try {
      await within(drained, bounds);
    } catch (error) {
      this.#giveUp();
      throw error;
    }
  }

  #beat(): void {
    if (!this.#output.writableNeedDrain) this.#output.write(":\n\n");
    if (this.caller === null) return;
    // While Redis is unreachable, the session is not known to have ended.
    this.#isAllowed().then(
      (allowed) => allowed || this.close(),
      () => {},
    );
  }

  /** What is in the buffer will not be read: end without it. */
  #giveUp(): void {
    this.#ended();
    this.#output.destroy();
  }

  #ended(): void {
    clearInterval(this.#heartbeat);
    clearTimeout(this.#retirement);
    this.#abort.abort();
  }
}

/** What a stream is made with. */
interface EventStreamPlan {
  readonly options: Required<EventStreamOptions>;
  isAllowed(request: FastifyRequest): Promise<boolean>;
}

/** The maximum numbers of open streams. */
export interface EventStreamsPlan {
  /** At once, in all. */
  readonly most: number;
  /** At once, for one account; on public routes, for one address. */
  readonly mostOfOne: number;
  /** Whether the request that opened a stream would be let in again: asked at each heartbeat. */
  isAllowed(request: FastifyRequest): Promise<boolean>;
}

/** All streams of a portal. */
export class EventStreams {
  readonly #plan: EventStreamsPlan;
  readonly #open = new Map<EventStream, string>();
  readonly #counts = new Map<string, number>();
  #closed = false;

  constructor(plan: EventStreamsPlan) {
    this.#plan = plan;
  }

  get size(): number {
    return this.#open.size;
  }

  open(reply: FastifyReply, options: Required<EventStreamOptions>): EventStream {
    if (this.#closed) throw new OverloadedError("the portal", "it is shutting down");
    const { most, mostOfOne, isAllowed } = this.#plan;
    if (this.#open.size >= most) {
      throw new OverloadedError("the portal", `${most} event streams are open`);
    }
    const { request } = reply;
    const { caller } = request;
    const owner =
      caller === null ? `from ${placeOf(addressOf(request))}` : `of ${caller.account.username}`;
    const count = this.#counts.get(owner) ?? 0;
    if (count >= mostOfOne) throw new TooManyStreamsError(mostOfOne);
    const stream = new EventStream(reply, { options, isAllowed });
    this.#open.set(stream, owner);
    this.#counts.set(owner, count + 1);
    stream.signal.addEventListener("abort", () => this.#forget(stream), { once: true });
    return stream;
  }

  /** Ends the streams of a session that is over. */
  endSession(token: string): void {
    this.#endWhere((caller) => caller.session?.token === token);
  }

  /** Ends the streams of an account whose password changed, except those of the session that stays. */
  endAccount(username: string, keptToken: string | undefined): void {
    this.#endWhere(({ account, session }) => {
      return (
        account.username === username && (session === undefined || session.token !== keptToken)
      );
    });
  }

  /** Ends every stream and opens no more. */
  close(): void {
    this.#closed = true;
    for (const stream of this.#open.keys()) stream.close();
  }

  #endWhere(isOver: (caller: Caller) => boolean): void {
    for (const stream of this.#open.keys()) {
      if (stream.caller !== null && isOver(stream.caller)) stream.close();
    }
  }

  #forget(stream: EventStream): void {
    const owner = this.#open.get(stream);
    if (owner === undefined) return;
    this.#open.delete(stream);
    const left = (this.#counts.get(owner) ?? 1) - 1;
    if (left > 0) this.#counts.set(owner, left);
    else this.#counts.delete(owner);
  }
}

declare module "fastify" {
  interface FastifyInstance {
    eventStreams: EventStreams;
  }
}

/** An event as it travels: one line per field, one `data` line per line of data, an empty line. */
export function encode({ id, event, data }: StreamEvent): string {
  let text = "";
  if (event !== undefined) text += `event: ${oneLine("type", event)}\n`;
  if (id !== undefined) text += `id: ${oneLine("id", id)}\n`;
  const body = typeof data === "string" ? data : (JSON.stringify(data) ?? "null");
  for (const line of body.split(/\r\n|\r|\n/)) text += `data: ${line}\n`;
  return `${text}\n`;
}

function oneLine(field: string, value: string): string {
  if (/[\r\n\0]/.test(value)) throw new InvalidEventError(field, value);
  return value;
}
