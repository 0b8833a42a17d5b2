/**
 * The merge queue over HTTP, on a port of its own:
 *
 *   POST   /v3/queue/{merge_key}/{method}/{service}   202 {id, key, ontime, items}   stored in Redis
 *   DELETE /v3/queue/{merge_key}/{method}/{service}   200 {deleted}
 *   GET    /v3/queue/{merge_key}/{method}/{service}   200 what is queued
 *
 * One path and three methods need no framework: a push is one path to cut, one JSON to check and one
 * script to run, and Fastify's share of that would be a quarter. It has no accounts; it listens on loopback by
 * default, refuses pages of other sites, and asks for a token if it was given any.
 */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { parse as parseQuery } from "node:querystring";
import { InvalidOptionError, type Logger, OverloadedError, silentLogger } from "@ropeway/core";
import {
  BackgroundRole,
  integer,
  type Opening,
  type OptionTable,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { AddressGuard, EndpointQueue, type MergeQueue } from "@ropeway/merge";
import { HostGuard } from "../access/host-guard.ts";
import { placeOf } from "../access/place.ts";
import { TokenGuard } from "../access/token-guard.ts";
import { ListenFailedError, MethodNotAllowedError, RouteNotFoundError } from "../errors.ts";
import { Pulse } from "../health/pulse.ts";
import { BodyBudget } from "../http/body-budget.ts";
import { FailureLog } from "../http/failure-log.ts";
import { LARGE_PAGE_BYTES, pageBudget } from "../http/page-budget.ts";
import { boundedServer, REQUEST_TIMEOUT_MS } from "../http/port-options.ts";
import { pathOf, problemOf } from "../http/problems.ts";
import { readBody } from "../http/read-body.ts";
import { MAX_BODY_BYTES, V3Handler, type V3Request } from "./v3-handler.ts";
import { V3_PATH } from "./v3-request.ts";

/** How a MergeServer listens. */
export interface MergeServerOptions {
  /** @default "127.0.0.1" */
  readonly host?: string;
  /** 0 takes any free one. @default 23334 */
  readonly port?: number;
  /** The largest body of one item. @default 1048576 */
  readonly maxBodyBytes?: number;
  /** Names by which clients reach it, besides loopback names and IP addresses. @default [] */
  readonly hosts?: readonly string[];
  /** How long Redis may not respond before requests get the status 503. @default 3000 */
  readonly redisSilenceMs?: number;
  /** How long a client may take to send a request, body included. @default 60000 */
  readonly requestTimeoutMs?: number;
  /** Bearer tokens; with any, requests need one of them. @default none */
  readonly tokens?: readonly string[];
  /** Addresses that may be called besides public ones; a blocked literal address is refused at once. @default none */
  readonly allow?: readonly string[];
  readonly logger?: Logger;
}

const options: OptionTable<MergeServerOptions> = {
  host: { default: "127.0.0.1", rule: text },
  port: { default: 23_334, rule: integer(0, 65_535) },
  maxBodyBytes: { default: MAX_BODY_BYTES, rule: integer(1, 33_554_432) },
  hosts: { default: [], rule: satisfying("a list of strings", isStrings) },
  redisSilenceMs: { default: 3_000, rule: integer(100) },
  requestTimeoutMs: { default: REQUEST_TIMEOUT_MS, rule: integer(1, 86_400_000) },
  tokens: { default: [], rule: satisfying("a list of strings", () => true) }, // see checkTokens
  allow: { default: [], rule: satisfying("a list of strings", isStrings) },
  logger: { default: silentLogger, rule: satisfying("a logger", isObject) },
};

function isStrings(value: unknown): boolean {
  return Array.isArray(value) && value.every((each) => typeof each === "string");
}

/** An empty token, of a variable that is not set, would allow every request. The error shows no token. */
function checkTokens(tokens: readonly string[]): void {
  if (isStrings(tokens) && tokens.every((token) => token.trim() !== "")) return;
  throw new InvalidOptionError("tokens", "(hidden)", "a list of strings that are not empty");
}

function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

const JSON_TYPE = "application/json; charset=utf-8";

/** The handlers by method. */
const VERBS: Readonly<Record<string, "push" | "remove" | "peek">> = {
  GET: "peek",
  HEAD: "peek",
  POST: "push",
  DELETE: "remove",
};

/** Listens for pushes, until it is closed. The queue and its Redis stay open. */
export class MergeServer extends BackgroundRole {
  readonly #handler: V3Handler;
  readonly #hosts: HostGuard;
  readonly #tokens: TokenGuard;
  readonly #logger: Logger;
  readonly #options: Required<MergeServerOptions>;
  readonly #pulse: Pulse;
  readonly #bodies = new BodyBudget("the merge server");
  readonly #pages = pageBudget("the merge server");
  readonly #failures = new FailureLog();
  #url = "";
  #closing = false;

  constructor(queue: MergeQueue, given?: MergeServerOptions) {
    const resolved = resolveOptions(options, given);
    checkTokens(resolved.tokens);
    super("the merge server", resolved.logger);
    const endpoints = new EndpointQueue(queue, new AddressGuard(resolved.allow));
    this.#handler = new V3Handler(queue, endpoints);
    this.#hosts = new HostGuard([...resolved.hosts, resolved.host]);
    this.#tokens = new TokenGuard(resolved.tokens);
    this.#logger = resolved.logger;
    this.#pulse = new Pulse({
      redis: queue.redis,
      silenceMs: resolved.redisSilenceMs,
      logger: resolved.logger,
    });
    this.#options = resolved;
  }

  /** Its URL, once it has started. */
  get url(): string {
    return this.#url;
  }

  protected async open({ defer }: Opening): Promise<void> {
    const { host, port, requestTimeoutMs } = this.#options;
    const server = boundedServer(
      requestTimeoutMs,
      (request, response) => void this.#serve(request, response),
    );
    const sockets = new Set<Socket>();
    server.on("connection", (socket) => {
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
    });
    this.#closing = false;
    defer(() => {
      this.#closing = true;
      return closeWithin(server, { sockets, ms: 5_000 });
    });
    server.listen({ host, port });
    await once(server, "listening").catch((error) => {
      throw new ListenFailedError(`${host}:${port}`, error);
    });
    const address = server.address() as AddressInfo;
    const shown = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
    this.#url = `http://${shown.includes(":") ? `[${shown}]` : shown}:${address.port}`;
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      const verb = this.#verbOf(request, response);
      const maxBytes = this.#options.maxBodyBytes;
      const body = verb === "push" ? await readBody(request, { response, maxBytes }) : undefined;
      const work = this.#handler[verb](partsOf(request, body));
      (verb === "peek" ? this.#pages : this.#bodies).during(response, work);
      const result = await this.#pulse.bounded(work, () => response.headersSent);
      this.#answer(response, verb === "push" ? 202 : 200, { result, type: JSON_TYPE });
    } catch (error) {
      this.#refuse(error, request, response);
    }
  }

  /** Checks the request before its body is read. Throws if it is refused. */
  #verbOf(request: IncomingMessage, response: ServerResponse): "push" | "remove" | "peek" {
    if (this.held) throw new OverloadedError("the merge server", "it is paused");
    const { method = "", headers, socket } = request;
    // Otherwise a page of another site could make a browser push to this machine.
    const foreign = this.#hosts.refusal({ method, headers, host: headers.host ?? "" });
    if (foreign !== undefined) throw foreign;
    if (this.#tokens.required) {
      const place = placeOf(socket.remoteAddress ?? "-");
      const wrong = this.#tokens.refusal(headers.authorization, place);
      if (wrong !== undefined) throw wrong;
    }
    const path = pathOf(request.url ?? "");
    if (!path.startsWith(V3_PATH)) throw new RouteNotFoundError(method, path);
    const verb = VERBS[method];
    if (verb === undefined) throw new MethodNotAllowedError(method, path, Object.keys(VERBS));
    const refusal =
      verb === "peek"
        ? this.#pages.refusal({ bytes: LARGE_PAGE_BYTES, response })
        : this.#bodies.refusal({ headers, limit: this.#options.maxBodyBytes, response });
    if (refusal !== undefined) throw refusal;
    return verb;
  }

  #refuse(error: unknown, request: IncomingMessage, response: ServerResponse): void {
    const { body, headers } = problemOf(error, { id: randomUUID(), url: request.url ?? "" });
    const line = this.#pulse.silent ? undefined : this.#failures.line(body);
    if (line !== undefined) {
      this.#logger.error({ err: error, requestId: body.requestId, ...line }, "request failed");
    }
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value);
    // The client may have been told to send its body, or not: what it sends next could be either.
    if (request.headers.expect !== undefined) response.setHeader("connection", "close");
    // In all other cases Node reads the rest of the body and drops it. If the connection were closed instead, most
    // clients would report a broken connection and not the response.
    this.#answer(response, body.status, { result: body, type: "application/problem+json" });
  }

  #answer(response: ServerResponse, status: number, { result, type }: Answer): void {
    const text = JSON.stringify(result);
    if (this.#closing) response.setHeader("connection", "close");
    response.writeHead(status, {
      "content-type": type,
      "content-length": Buffer.byteLength(text),
    });
    response.end(text);
  }
}

/** What is sent. */
interface Answer {
  readonly result: object;
  readonly type: string;
}

function partsOf({ url = "", headers }: IncomingMessage, body: Buffer | undefined): V3Request {
  const query = url.indexOf("?");
  return { url, query: query < 0 ? {} : parseQuery(url.slice(query + 1)), headers, body };
}

/** Waits for the requests under way, then closes the remaining connections. */
async function closeWithin(
  server: Server,
  { sockets, ms }: { readonly sockets: Iterable<Socket>; readonly ms: number },
): Promise<void> {
  const cut = setTimeout(() => server.closeAllConnections(), ms);
  const closed = new Promise((resolve) => server.close(resolve));
  // Node closes idle connections, but not those that have never had a request.
  for (const socket of sockets) if (socket.bytesRead === 0) socket.destroy();
  await closed;
  clearTimeout(cut);
}
