/**
 * One HTTP/2 connection to one etcd member, and gRPC calls on it.
 *
 *   connecting ---> open ---> retired (takes no new calls, ends with its last stream) ---> closed
 *        '------------'--------- error, end, or no ping within 3 s --------------------------^
 *
 * While a stream is open, a ping every 6 s finds out whether the other side is still there. etcd ends
 * connections that ping more often than every 5 s, or ping without an open stream. A unary call has a
 * deadline instead.
 */
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { SecureContextOptions } from "node:tls";
import { reasonOf } from "@ropeway/core/internal";
import { type Deadline, startDeadline } from "./deadline.ts";
import { FrameReader, frame } from "./frame.ts";
import { GrpcError, Status } from "./grpc-error.ts";

const PING_EVERY_MS = 6_000;
const PING_WITHIN_MS = 3_000;
const WINDOW = 4 * 1_048_576;

/** Certificates for TLS, in PEM. */
export interface StoreTls extends Pick<SecureContextOptions, "ca" | "cert" | "key"> {
  /** The name in the server's certificate, if it is not the host's. */
  readonly servername?: string | undefined;
}

/** What a call is made with. */
export interface CallPlan {
  /** Such as /etcdserverpb.KV/Range. */
  readonly path: string;
  readonly metadata: Readonly<Record<string, string>>;
}

/** A call that sends and receives any number of messages. */
export interface GrpcStream {
  send(message: Buffer): void;
  /** Ends the sending side. */
  end(): void;
  /** Ends it from our side. */
  cancel(): void;
}

/** What happens on a stream. `ended` is called exactly once. */
export interface GrpcListener {
  message(message: Buffer): void;
  ended(error: GrpcError): void;
}

/** A connection to one member. */
export class Channel {
  readonly #session: ClientHttp2Session;
  readonly #streams = new Set<ClientHttp2Stream>();
  readonly #connected: Promise<void>;
  #ping: NodeJS.Timeout | undefined;
  #unanswered: Deadline | undefined;
  #closed: string | undefined;

  constructor(url: string, tls: StoreTls | undefined) {
    this.#session = connect(url, {
      ...tls,
      settings: { initialWindowSize: WINDOW, enablePush: false },
    });
    this.#connected = new Promise((resolve, reject) => {
      this.#session.once("connect", () => resolve());
      this.#session.once("close", () => reject(new Error(this.#closed ?? "connection closed")));
    });
    this.#connected.catch(() => {}); // callers get the error
    this.#session.on("error", (error) => {
      this.#closed ??= reasonOf(error);
    });
    this.#session.once("goaway", () => this.retire());
    this.#session.once("close", () => {
      this.#closed ??= "connection closed";
      clearInterval(this.#ping);
      this.#unanswered?.cancel();
    });
  }

  /** Whether new calls may be made on it. */
  get usable(): boolean {
    return this.#closed === undefined && !this.#session.closed && !this.#session.destroyed;
  }

  /** Calls the listener when the connection has ended. */
  onClosed(listener: () => void): void {
    this.#session.once("close", listener);
  }

  /** One request, one response. */
  unary(plan: CallPlan, request: Buffer, timeoutMs: number): Promise<Buffer> {
    return new Promise((resolve, reject) => {
      let response: Buffer | undefined;
      let call: GrpcStream | undefined;
      let settled = false;
      const settle = (finish: () => void) => {
        if (settled) return;
        settled = true;
        deadline.cancel();
        finish();
      };
      const deadline = startDeadline(timeoutMs, () => {
        const text = `no response within ${timeoutMs} ms`;
        settle(() => reject(new GrpcError(Status.deadlineExceeded, text, call !== undefined)));
        call?.cancel();
      });
      this.#connected.then(
        () => {
          if (settled) return;
          call = this.stream(plan, {
            message: (message) => {
              response = message;
            },
            ended: (error) =>
              settle(() => {
                if (error.status === Status.ok && response !== undefined) resolve(response);
                else reject(error);
              }),
          });
          call.send(request);
          call.end();
        },
        (error) => settle(() => reject(new GrpcError(Status.unavailable, reasonOf(error), false))),
      );
    });
  }

  /** Opens a stream; call it when connected (see opened). */
  stream(plan: CallPlan, listener: GrpcListener): GrpcStream {
    const headers: OutgoingHttpHeaders = {
      ":method": "POST",
      ":path": plan.path,
      te: "trailers",
      "content-type": "application/grpc",
      ...plan.metadata,
    };
    let stream: ClientHttp2Stream;
    try {
      stream = this.#session.request(headers);
    } catch (error) {
      queueMicrotask(() =>
        listener.ended(new GrpcError(Status.unavailable, reasonOf(error), false)),
      );
      return { send: () => {}, end: () => {}, cancel: () => {} };
    }
    this.#track(stream);
    listen(stream, listener);
    return {
      send: (message) => void stream.write(frame(message)),
      end: () => void stream.end(),
      cancel: () => stream.close(constants.NGHTTP2_CANCEL),
    };
  }

  /** Resolves when connected, or throws a GrpcError. */
  async opened(timeoutMs: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(
        () => reject(new Error(`not connected within ${timeoutMs} ms`)),
        timeoutMs,
      );
    });
    try {
      await Promise.race([this.#connected, late]);
    } catch (error) {
      throw new GrpcError(Status.unavailable, reasonOf(error), false);
    } finally {
      clearTimeout(timer);
    }
  }

  /** Takes no new calls, and closes when the last stream has ended. */
  retire(): void {
    this.#closed ??= "connection retired";
    if (!this.#session.connecting) this.#session.close();
    else this.#session.destroy();
  }

  /** Ends every call at once. */
  close(): void {
    this.#closed ??= "connection closed";
    this.#session.destroy();
  }

  #track(stream: ClientHttp2Stream): void {
    this.#streams.add(stream);
    stream.once("close", () => {
      this.#streams.delete(stream);
      if (this.#streams.size === 0) {
        clearInterval(this.#ping);
        this.#ping = undefined;
      }
    });
    this.#ping ??= setInterval(() => this.#checkAlive(), PING_EVERY_MS);
  }

  #checkAlive(): void {
    if (this.#session.destroyed || this.#unanswered !== undefined) return;
    this.#unanswered = startDeadline(PING_WITHIN_MS, () => {
      this.#closed ??= `no ping within ${PING_WITHIN_MS} ms`;
      this.#session.destroy();
    });
    this.#session.ping((error) => {
      this.#unanswered?.cancel();
      this.#unanswered = undefined;
      if (error !== null) this.#session.destroy();
    });
  }
}

/** Turns the events of an HTTP/2 stream into messages and one end. */
function listen(stream: ClientHttp2Stream, listener: GrpcListener): void {
  const reader = new FrameReader();
  let outcome: GrpcError | undefined;
  const note = (headers: IncomingHttpHeaders) => {
    const status = headers["grpc-status"];
    const http = headers[":status"];
    if (status !== undefined) {
      outcome = new GrpcError(Number(status), messageOf(headers), true);
      // A unary call is complete with its response and trailers.
      if (!stream.writableEnded) stream.end();
    } else if (http !== undefined && Number(http) !== 200) {
      outcome = new GrpcError(Status.unavailable, `HTTP status ${http}`, true);
    }
  };
  let failure: GrpcError | undefined;
  stream.on("response", note);
  stream.on("trailers", note);
  stream.on("data", (chunk: Buffer) => {
    try {
      for (const message of reader.push(chunk)) listener.message(message);
    } catch (error) {
      failure = new GrpcError(Status.unavailable, reasonOf(error), true);
      stream.close(constants.NGHTTP2_CANCEL);
    }
  });
  stream.on("error", (error) => {
    failure ??= new GrpcError(Status.unavailable, reasonOf(error), true);
  });
  stream.once("close", () => {
    const refused = stream.rstCode === constants.NGHTTP2_REFUSED_STREAM;
    const lost = new GrpcError(Status.unavailable, "the stream was cut off", !refused);
    listener.ended(outcome ?? failure ?? lost);
  });
}

function messageOf(headers: IncomingHttpHeaders): string {
  const raw = String(headers["grpc-message"] ?? "");
  try {
    return decodeURIComponent(raw);
  } catch {
    return raw;
  }
}
