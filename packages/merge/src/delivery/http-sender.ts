/**
 * Sends one HTTP request to a checked address, and reads a bounded part of the response.
 *
 *   guard.addresses(host) --> socket to one of exactly these --> request --> status --> body, bounded
 *   '------------------------------ one deadline for all of it ---------------------------------'
 *
 * send() always ends by its deadline, and not before the connection is free or destroyed, so that a caller that
 * counts its sends counts sockets. A response whose status has arrived counts, even if its body never ends.
 * Redirects are not followed. Requests are not repeated here, because the endpoint may have read a request on a
 * connection that broke. No request starts after its deadline: timers run late in a process that was suspended,
 * so the clock is read once more right before the first byte is sent.
 */
import type { LookupFunction } from "node:net";
import { AbortedError, TimeoutError } from "@ropeway/core";
import { Agent, type Dispatcher } from "undici";
import type { AddressGuard } from "./address-guard.ts";

/** One request. */
export interface HttpRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** One response. */
export interface HttpResponse {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** The first bytes of the body. */
  readonly body: Buffer;
  /** Whether `body` is the whole body. */
  readonly complete: boolean;
}

/** The options of an HttpSender. Its callers limit the number of connections. */
export interface HttpSenderOptions {
  readonly guard: AddressGuard;
  /** The maximum number of bytes of a response that are read. */
  readonly maxResponseBytes: number;
  readonly connectTimeoutMs: number;
}

const KEEP_ALIVE_MS = 4_000;
const MAX_HEADER_BYTES = 16_384;

/** An HTTP client that connects only to checked addresses. */
export class HttpSender {
  readonly #guard: AddressGuard;
  readonly #maxResponseBytes: number;
  readonly #agent: Agent;
  readonly #punctual: Dispatcher;

  constructor(options: HttpSenderOptions) {
    this.#guard = options.guard;
    this.#maxResponseBytes = options.maxResponseBytes;
    this.#agent = new Agent({
      connect: { lookup: this.#lookup, timeout: options.connectTimeoutMs },
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      maxHeaderSize: MAX_HEADER_BYTES,
      pipelining: 1,
      // The deadline below is the only timer of a request.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    this.#punctual = this.#agent.compose(punctually);
  }

  /** Throws the network's error, TimeoutError, AbortedError or BlockedEndpointError. */
  async send(request: HttpRequest): Promise<HttpResponse> {
    const { url, timeoutMs, signal } = request;
    this.#guard.checkLiteral(url); // sockets do not look up literal addresses
    const ending = new AbortController();
    const abort = () => ending.abort(new AbortedError(`a delivery to ${url}`));
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
    const deadline = setTimeout(() => ending.abort(new TimeoutError(url, timeoutMs)), timeoutMs);
    const until = performance.now() + timeoutMs;
    try {
      return await this.#exchange(request, ending.signal, until);
    } finally {
      clearTimeout(deadline);
      signal?.removeEventListener("abort", abort);
    }
  }

  /** Closes the idle connections and destroys the others. */
  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  readonly #lookup: LookupFunction = (hostname, options, callback) => {
    this.#guard.addresses(hostname).then(
      (found) => {
        const [first] = found;
        if (options.all === true) callback(null, [...found]);
        else callback(null, first?.address ?? "", first?.family);
      },
      (error) => callback(error, "", 4),
    );
  };

  async #exchange(request: HttpRequest, signal: AbortSignal, until: number): Promise<HttpResponse> {
    const { url, method, headers, body, timeoutMs } = request;
    const { origin, pathname, search } = new URL(url);
    const timed: Timed = {
      origin,
      path: `${pathname}${search}`,
      method: method as Dispatcher.HttpMethod,
      headers,
      body,
      signal,
      isLate: () => (performance.now() < until ? undefined : new TimeoutError(url, timeoutMs)),
    };
    const sent = this.#punctual.request(timed);
    // The client checks the signal only once it is connected. We do not wait for that.
    const { statusCode, headers: received, body: stream } = await orAborted(sent, signal);
    const chunks: Buffer[] = [];
    let size = 0;
    let complete = false;
    try {
      for await (const chunk of stream) {
        const bytes = chunk as Buffer;
        chunks.push(bytes.subarray(0, this.#maxResponseBytes - size));
        size += bytes.length;
        if (size > this.#maxResponseBytes) break; // ends the stream, and with it the connection
      }
      complete = size <= this.#maxResponseBytes;
    } catch {
      // The deadline has passed, or the endpoint closed the connection. The status has arrived and decides.
    }
    const after = received["retry-after"];
    const retryAfter = Array.isArray(after) ? after[0] : after;
    return { status: statusCode, retryAfter, body: Buffer.concat(chunks), complete };
  }
}

/** A request with its deadline. */
interface Timed extends Dispatcher.RequestOptions {
  readonly isLate: () => TimeoutError | undefined;
}

/**
 * Aborts a request if its deadline has passed when its connection is ready, and passes everything else on. It is
 * not a DecoratorHandler, which treats a second response head as an error: 102 and 103 come before the
 * final one.
 */
class Punctual implements Dispatcher.DispatchHandler {
  readonly #handler: Dispatcher.DispatchHandler;
  readonly #isLate: Timed["isLate"];

  constructor(handler: Dispatcher.DispatchHandler, isLate: Timed["isLate"]) {
    this.#handler = handler;
    this.#isLate = isLate;
  }

  onRequestStart(...[controller, context]: HandlerArguments<"onRequestStart">): void {
    const late = this.#isLate();
    if (late !== undefined) controller.abort(late);
    else this.#handler.onRequestStart?.(controller, context);
  }

  onRequestUpgrade(...event: HandlerArguments<"onRequestUpgrade">): void {
    this.#handler.onRequestUpgrade?.(...event);
  }

  onResponseStart(...event: HandlerArguments<"onResponseStart">): void {
    this.#handler.onResponseStart?.(...event);
  }

  onResponseData(...event: HandlerArguments<"onResponseData">): void {
    this.#handler.onResponseData?.(...event);
  }

  onResponseEnd(...event: HandlerArguments<"onResponseEnd">): void {
    this.#handler.onResponseEnd?.(...event);
  }

  onResponseError(...event: HandlerArguments<"onResponseError">): void {
    this.#handler.onResponseError?.(...event);
  }
}

/** The arguments of a handler's method. */
type HandlerArguments<Name extends keyof Dispatcher.DispatchHandler> = Parameters<
  NonNullable<Dispatcher.DispatchHandler[Name]>
>;

const punctually: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
  dispatch(options, new Punctual(handler, (options as unknown as Timed).isLate));

/** The promise's outcome, or the signal's reason as soon as it aborts. */
function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
