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
  STATUS_CODES,
} from "node:http";
import type { Duplex } from "node:stream";
import { RopewayError } from "@ropeway/core";
import type { FastifyServerOptions } from "fastify";
import { problemOf } from "./problems.ts";
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
): Pick<FastifyServerOptions, "requestTimeout" | "connectionTimeout" | "clientErrorHandler"> {
  return {
    requestTimeout: requestTimeoutMs,
    connectionTimeout: IDLE_SOCKET_MS,
    clientErrorHandler: (error, socket) => answerRaw(error, socket),
    http: serverOptions(requestTimeoutMs),
  } as ReturnType<typeof portOptions>;
}

/** A server with the same bounds, without Fastify. */
export function boundedServer(requestTimeoutMs: number, listener: RequestListener): Server {
  const options = { ...serverOptions(requestTimeoutMs), requestTimeout: requestTimeoutMs };
  const server = createServer({ ...options, keepAliveTimeout: KEEP_ALIVE_MS }, listener);
  server.setTimeout(IDLE_SOCKET_MS);
  server.on("clientError", answerRaw);
  boundConnections(server);
  return server;
}

/** Bounds the number of connections. */
export function boundConnections(server: Server): void {
  server.maxConnections = MAX_CONNECTIONS;
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
  if (error.code === "ECONNRESET" || !socket.writable || isAnswering(socket)) {
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

/** Whether a response is under way on the socket: a second head would be read as part of its body. */
function isAnswering(socket: Duplex): boolean {
  const { _httpMessage: message } = socket as { _httpMessage?: { headersSent?: boolean } | null };
  return message?.headersSent === true;
}
