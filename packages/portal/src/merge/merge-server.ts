/**
 * The merge queue over HTTP, on a port of its own:
 *
 *   POST   /v3/queue/{merge_key}/{method}/{service}   202 {id, key, ontime, items}   stored in Redis
 *   DELETE /v3/queue/{merge_key}/{method}/{service}   200 {deleted}
 *   GET    /v3/queue/{merge_key}/{method}/{service}   200 what is queued
 *
 * A Fastify without schemas and request logs: a push is one path to cut, one JSON to check and one
 * script to run. It has no accounts; it listens on loopback by default, refuses pages of other
 * sites, and asks for a token if it was given any.
 */
import type { AddressInfo } from "node:net";
import {
  InvalidOptionError,
  type Logger,
  OverloadedError,
  type RopewayError,
  silentLogger,
} from "@ropeway/core";
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
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { HostGuard } from "../access/host-guard.ts";
import { placeOf } from "../access/place.ts";
import { TokenGuard } from "../access/token-guard.ts";
import { ListenFailedError, MethodNotAllowedError, RouteNotFoundError } from "../errors.ts";
import { Pulse } from "../health/pulse.ts";
import { BodyBudget } from "../http/body-budget.ts";
import { translate } from "../http/framework-error.ts";
import { boundConnections, portOptions, REQUEST_TIMEOUT_MS } from "../http/port-options.ts";
import { pathOf, problemOf } from "../http/problems.ts";
import { partsOf, V3Handler } from "./v3-handler.ts";
import { cutPath, destinationOfPath, V3_PATH } from "./v3-request.ts";

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
  maxBodyBytes: { default: 1_048_576, rule: integer(1, 33_554_432) },
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

const METHODS = ["GET", "HEAD", "POST", "DELETE"];

/** Listens for pushes, until it is closed. The queue and its Redis stay open. */
export class MergeServer extends BackgroundRole {
  readonly #handler: V3Handler;
  readonly #hosts: HostGuard;
  readonly #tokens: TokenGuard;
  readonly #logger: Logger;
  readonly #options: Required<MergeServerOptions>;
  readonly #pulse: Pulse;
  readonly #bodies = new BodyBudget("the merge server");
  #url = "";

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
    const { host, port } = this.#options;
    const app = this.#build();
    defer(() => closeWithin(app, 5_000));
    await app.listen({ host, port }).catch((error) => {
      throw new ListenFailedError(`${host}:${port}`, error);
    });
    const address = app.server.address() as AddressInfo;
    const shown = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
    this.#url = `http://${shown.includes(":") ? `[${shown}]` : shown}:${address.port}`;
  }

  #build(): FastifyInstance {
    const { maxBodyBytes, requestTimeoutMs } = this.#options;
    const app = fastify({
      ...portOptions(requestTimeoutMs),
      bodyLimit: maxBodyBytes,
      routerOptions: { maxParamLength: 8_192 },
      return503OnClosing: false,
      forceCloseConnections: "idle",
      // A path that Fastify cannot decode: ours names the part that is wrong.
      frameworkErrors: (error, request, reply) =>
        void this.#refuse(pathFault(request.raw.url ?? "") ?? error, request, reply),
    });
    boundConnections(app.server);
    app.removeAllContentTypeParsers();
    // JSON by name too: Fastify finds a name at once, and parses every other type before it takes "*".
    app.addContentTypeParser(
      ["application/json", "*"],
      { parseAs: "buffer" },
      (_request, body, done) => done(null, body),
    );
    app.setErrorHandler((error, request, reply) => this.#refuse(error, request, reply));
    app.setNotFoundHandler((request, reply) => this.#refuse(notFound(request), request, reply));
    app.addHook("onRequest", (request, reply, done) => {
      done(this.#refusal(request) ?? this.#bodies.refusal(request, reply));
    });
    const handler = this.#handler;
    const within = <T>(work: Promise<T>, reply: FastifyReply) =>
      this.#pulse.bounded(work, () => reply.sent);
    app.post(`${V3_PATH}*`, (request, reply) => {
      reply.code(202);
      return within(handler.push(partsOf(request)), reply);
    });
    app.delete(`${V3_PATH}*`, (request, reply) => within(handler.remove(partsOf(request)), reply));
    app.get(`${V3_PATH}*`, (request, reply) => within(handler.peek(partsOf(request)), reply));
    return app;
  }

  /** Why the request must not go on, if so. */
  #refusal(request: FastifyRequest): RopewayError | undefined {
    if (this.held) return new OverloadedError("the merge server", "it is paused");
    const { method, headers } = request;
    // A page of another site could otherwise make its reader's browser push to this machine.
    const refusal = this.#hosts.refusal({ method, headers, host: headers.host ?? "" });
    if (refusal !== undefined) return refusal;
    const wrong = this.#tokens.refusal(headers.authorization, placeOf(request.ip));
    if (wrong !== undefined) return wrong;
    return request.is404 ? notFound(request) : undefined; // before the body is read
  }

  #refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const { body, headers } = problemOf(translate(error, request), request);
    if (body.status >= 500 && !this.#pulse.silent)
      this.#logger.error({ err: error, code: body.code }, "a push failed");
    return reply
      .code(body.status)
      .headers(headers)
      .type("application/problem+json")
      .send(JSON.stringify(body));
  }
}

/** Lets the requests under way end, then cuts the connections that are left. */
async function closeWithin(app: FastifyInstance, ms: number): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), ms);
  await app.close();
  clearTimeout(cut);
}

/** What is wrong with a path that Fastify could not even decode. */
function pathFault(url: string): unknown {
  try {
    destinationOfPath(cutPath(url));
    return undefined;
  } catch (error) {
    return error;
  }
}

function notFound({ method, raw }: FastifyRequest): RopewayError {
  const path = pathOf(raw.url ?? "");
  return path.startsWith(V3_PATH)
    ? new MethodNotAllowedError(method, path, METHODS)
    : new RouteNotFoundError(method, path);
}
