/**
 * Options that all our ports share: limits on the duration and the size of a
 * request, and responses in problem+json, also to bytes that are not HTTP.
 *
 *   headers            16 KiB, within 10 s                431 HEADERS_TOO_LARGE, 408 REQUEST_TIMEOUT
 *   whole request      within `requestTimeoutMs`          408 REQUEST_TIMEOUT
 *   a socket on which nothing happens for 2 minutes       closed
 *   connections        10,000                             more are closed at once
 */
import { randomUUID } from "node:crypto";
import {
  createServer,
  type RequestListener,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from "node:http";
import type { Duplex } from "node:stream";
import { RopewayError } from "@ropeway/core";
import type { FastifyServerOptions } from "fastify";
import { originForm } from "./origin-form.ts";
import { problemOf } from "./problems.ts";
import { QueuedResponses } from "./queued-responses.ts";
import { REQUEST_ID } from "./request-id.ts";

/** How long a client may take to send a request, body included. */
export const REQUEST_TIMEOUT_MS = 60_000;
const HEADERS_TIMEOUT_MS = 10_000;
const IDLE_SOCKET_MS = 120_000;
/** How long a connection is kept for the next request: longer than the minute of common proxies. */
const KEEP_ALIVE_MS = 72_000;
const MAX_HEADER_BYTES = 16_384;
const MAX_CONNECTIONS = 10_000;
/** How often Node looks for requests that took too long; its own default is 30 s. */
const CHECK_MS = 1_000;

/** Node's own options that bound a port. */
function serverOptions(requestTimeoutMs: number): ServerOptions {
  return {
    headersTimeout: Math.min(HEADERS_TIMEOUT_MS, requestTimeoutMs),
    connectionsCheckingInterval: Math.min(CHECK_MS, requestTimeoutMs),
    maxHeaderSize: MAX_HEADER_BYTES,
  };
}

/** The options of Fastify that bound a port. */
export function portOptions(
  requestTimeoutMs: number = REQUEST_TIMEOUT_MS,
): Pick<
  FastifyServerOptions,
  "requestTimeout" | "connectionTimeout" | "clientErrorHandler" | "rewriteUrl"
> {
  return {
    rewriteUrl: originForm,
    requestTimeout: requestTimeoutMs,
    connectionTimeout: IDLE_SOCKET_MS,
    clientErrorHandler: (error, socket) => answerRaw(error, socket),
    http: serverOptions(requestTimeoutMs),
  } as ReturnType<typeof portOptions>;
}

/**
 * A server with the same bounds, without Fastify. The listener also gets the requests whose client waits for
 * "100 Continue": it sends that itself, once it is about to read the body.
 */
export function boundedServer(requestTimeoutMs: number, listener: RequestListener): Server {
  const options = { ...serverOptions(requestTimeoutMs), requestTimeout: requestTimeoutMs };
  const serve: RequestListener = (request, response) => {
    request.url = originForm(request);
    listener(request, response);
  };
  const server = createServer({ ...options, keepAliveTimeout: KEEP_ALIVE_MS }, serve);
  server.on("checkContinue", serve);
  server.on("checkExpectation", serve); // other expectations are ignored
  server.setTimeout(IDLE_SOCKET_MS);
  server.on("clientError", answerRaw);
  boundConnections(server);
  return server;
}

/** Bounds the number of connections, and lets every response end with its connection. */
export function boundConnections(server: Server): void {
  server.maxConnections = MAX_CONNECTIONS;
  const queued = new QueuedResponses();
  const note: RequestListener = (request, response) => queued.note(request, response);
  server.prependListener("request", note);
  for (const event of ["checkContinue", "checkExpectation"]) {
    if (server.listenerCount(event) > 0) server.prependListener(event, note);
  }
}

/** Node's codes for what it could not read, and ours. */
const REASONS: Readonly<Record<string, readonly [code: string, message: string]>> = {
  HPE_HEADER_OVERFLOW: [
    "HEADERS_TOO_LARGE",
    `the request's headers are larger than ${MAX_HEADER_BYTES} bytes`,
  ],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ["BODY_TOO_LARGE", "the request's chunk extensions are too large"],
  ERR_HTTP_REQUEST_TIMEOUT: ["REQUEST_TIMEOUT", "the request did not arrive in time"],
};

/** Responds to input without a request object: it is not HTTP, too large, or too slow. */
function answerRaw(error: NodeJS.ErrnoException, socket: Duplex): void {
  const { _httpMessage: pending } = socket as { _httpMessage?: ServerResponse | null };
  if (pending?.req.complete && !pending.headersSent && error.code !== "ECONNRESET") {
    // The client would take the problem for the response to the complete request in front of it.
    pending.shouldKeepAlive = false;
    return;
  }
  // A second head would be read as part of the body of a response that is under way.
  if (error.code === "ECONNRESET" || !socket.writable || pending?.headersSent) {
    socket.destroy();
    return;
  }
  const requestId = randomUUID();
  const [code, message] = REASONS[error.code ?? ""] ?? [
    "BAD_REQUEST",
    "the request is not HTTP/1.1",
  ];
  const problem = problemOf(new RopewayError(code, message), { id: requestId, url: "" });
  const body = JSON.stringify(problem.body);
  const { status } = problem.body;
  socket.end(
    [
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
      "content-type: application/problem+json",
      `${REQUEST_ID}: ${requestId}`,
      `content-length: ${Buffer.byteLength(body)}`,
      "connection: close",
      "",
      body,
    ].join("\r\n"),
    () => socket.destroy(),
  );
}
