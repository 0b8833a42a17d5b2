/**
 * Sends one HTTP request to a checked address and reads as little of the answer as it needs.
 *
 *   guard.addresses(host) --> socket to one of exactly these --> request --> status
 *                                                                   |--> 207: body, capped
 *                                                                   '--> else: body thrown away, capped
 *
 * No redirect is followed; a 3xx is an answer like any other. The whole exchange has one deadline.
 * node:http rather than a client library: the agent's look-up hook is where the address is pinned.
 */
import { Agent as HttpAgent, type IncomingMessage, type RequestOptions, request } from "node:http";
import { Agent as HttpsAgent, request as secureRequest } from "node:https";
import type { LookupFunction } from "node:net";
import { TimeoutError } from "@ropeway/core";
import type { AddressGuard } from "./address-guard.ts";

/** One request. */
export interface Outgoing {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** What came back. */
export interface Answer {
  readonly status: number;
  readonly retryAfter: string | undefined;
  /** Of a 207 only, and only if it is whole and small enough. */
  readonly body: Buffer | undefined;
}

/** What the sender may do; how many connections it opens is up to whoever asks. */
export interface SenderOptions {
  readonly guard: AddressGuard;
  /** Bytes of an answer that are read at most. */
  readonly maxResponseBytes: number;
}

const KEEP_ALIVE_MS = 10_000;

/** An HTTP client that cannot be led astray. */
export class Sender {
  readonly #guard: AddressGuard;
  readonly #maxResponseBytes: number;
  readonly #http: HttpAgent;
  readonly #https: HttpsAgent;

  constructor(options: SenderOptions) {
    this.#guard = options.guard;
    this.#maxResponseBytes = options.maxResponseBytes;
    const agent = {
      keepAlive: true,
      maxFreeSockets: 16,
      timeout: KEEP_ALIVE_MS,
      lookup: this.#lookup,
    };
    this.#http = new HttpAgent(agent);
    this.#https = new HttpsAgent(agent);
  }

  /** Sends it; throws what the network threw, TimeoutError or BlockedTargetError. */
  async send(outgoing: Outgoing): Promise<Answer> {
    this.#guard.checkLiteral(outgoing.url); // sockets look no literal address up
    try {
      return await this.#exchange(outgoing);
    } catch (error) {
      // An idle connection that the server closed as we took it: nobody read the request.
      if (!(error instanceof StaleSocketError)) throw error;
      return await this.#exchange(outgoing);
    }
  }

  /** Closes the idle connections. */
  close(): void {
    this.#http.destroy();
    this.#https.destroy();
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

  #exchange(outgoing: Outgoing): Promise<Answer> {
    const { url, method, headers, body, timeoutMs, signal } = outgoing;
    return new Promise<Answer>((resolve, reject) => {
      const target = new URL(url);
      const secure = target.protocol === "https:";
      const options: RequestOptions = {
        method,
        headers: { ...headers, "content-length": String(body.length) },
        agent: secure ? this.#https : this.#http,
        timeout: timeoutMs,
        signal,
      };
      const sent = (secure ? secureRequest : request)(target, options);
      const deadline = setTimeout(() => sent.destroy(new TimeoutError(url, timeoutMs)), timeoutMs);
      sent.on("close", () => clearTimeout(deadline));
      sent.on("timeout", () => sent.destroy(new TimeoutError(url, timeoutMs)));
      sent.on("error", (error: NodeJS.ErrnoException) => {
        const stale = sent.reusedSocket && (error.code === "ECONNRESET" || error.code === "EPIPE");
        reject(stale ? new StaleSocketError(error) : error);
      });
      sent.on("response", (response) => this.#read(response).then(resolve, reject));
      sent.end(body);
    });
  }

  /** The status counts; only a 207 says more in its body. */
  #read(response: IncomingMessage): Promise<Answer> {
    const { statusCode: status = 0, headers } = response;
    const retryAfter = headers["retry-after"];
    const chunks: Buffer[] = [];
    let size = 0;
    response.on("data", (chunk: Buffer) => {
      size += chunk.length;
      if (size > this.#maxResponseBytes) response.destroy();
      else if (status === 207) chunks.push(chunk);
    });
    response.on("error", () => {}); // the deadline or our own cap; `complete` says so below
    if (status !== 207) return Promise.resolve({ status, retryAfter, body: undefined });
    return new Promise((resolve) => {
      response.on("close", () => {
        const body = response.complete ? Buffer.concat(chunks) : undefined;
        resolve({ status, retryAfter, body });
      });
    });
  }
}

class StaleSocketError extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}
