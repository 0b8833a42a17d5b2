/**
 * The v3 queue over HTTP, on a port of its own:
 *
 *   POST   /v3/queue/{merge_key}/{method}/{service}   202 {id, key, ontime, items}   stored in Redis
 *   DELETE /v3/queue/{merge_key}/{method}/{service}   200 {deleted}
 *   GET    /v3/queue/{merge_key}/{method}/{service}   200 what is queued
 *
 * A Fastify without schemas and request logs: a push is one path to cut, one JSON to check and one
 * script to run. It has no accounts; it listens on loopback unless told otherwise, refuses browsers of
 * other sites, and asks for a token if it was given any.
 */
import type { AddressInfo } from "node:net";
import { type Logger, type RopewayError, silentLogger } from "@ropeway/core";
import type { MergeQueue } from "@ropeway/merge";
import { AddressGuard } from "@ropeway/merge/internal";
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { HostGuard } from "../access/host-guard.ts";
import { placeOf } from "../access/place.ts";
import { TokenGuard } from "../access/token-guard.ts";
import { ListenFailedError, MethodNotAllowedError, RouteNotFoundError } from "../errors.ts";
import { translate } from "../http/framework-error.ts";
import { boundConnections, portOptions } from "../http/port-options.ts";
import { pathOf, problemOf } from "../http/problems.ts";
import { partsOf, V3Desk } from "./v3-desk.ts";
import { cutPath, QUEUE_PATH, targetOfPath } from "./v3-request.ts";

/** How the service listens and what it takes. */
export interface QueueServiceOptions {
  /** @default "127.0.0.1" */
  readonly host?: string;
  /** 0 takes any free one. @default 23334 */
  readonly port?: number;
  /** The largest body of one item. @default 1048576 */
  readonly maxBodyBytes?: number;
  /** Names by which clients reach it, besides loopback names and IP addresses. @default [] */
  readonly hosts?: readonly string[];
  /** How long a client may take to send a request, body included. @default 60000 */
  readonly requestTimeoutMs?: number;
  /** Bearer tokens; with any, requests need one of them. @default none */
  readonly tokens?: readonly string[];
  /** What may be called besides public addresses; a blocked literal address is refused at once. */
  readonly targets?: readonly string[];
  readonly logger?: Logger;
}

const METHODS = ["GET", "HEAD", "POST", "DELETE"];

/** A listening v3 queue. */
export class QueueService implements AsyncDisposable {
  readonly #desk: V3Desk;
  readonly #hosts: HostGuard;
  readonly #tokens: TokenGuard;
  readonly #logger: Logger;
  readonly #app: FastifyInstance;
  #url = "";

  private constructor(queue: MergeQueue, options: QueueServiceOptions) {
    this.#desk = new V3Desk(queue, new AddressGuard(options.targets));
    this.#hosts = new HostGuard([...(options.hosts ?? []), options.host ?? "127.0.0.1"]);
    this.#tokens = new TokenGuard(options.tokens);
    this.#logger = options.logger ?? silentLogger;
    this.#app = this.#build(options);
  }

  /** Listens. */
  static async start(queue: MergeQueue, options: QueueServiceOptions = {}): Promise<QueueService> {
    const { host = "127.0.0.1", port = 23_334 } = options;
    const service = new QueueService(queue, options);
    await service.#app.listen({ host, port }).catch((error) => {
      throw new ListenFailedError(`${host}:${port}`, error);
    });
    const address = service.#app.server.address() as AddressInfo;
    const shown = host === "0.0.0.0" || host === "::" ? "127.0.0.1" : host;
    service.#url = `http://${shown.includes(":") ? `[${shown}]` : shown}:${address.port}`;
    return service;
  }

  /** Where it answers. */
  get url(): string {
    return this.#url;
  }

  /** Lets requests under way end, then stops; queue and Redis stay open. */
  async close(): Promise<void> {
    const cut = setTimeout(() => this.#app.server.closeAllConnections(), 5_000);
    await this.#app.close();
    clearTimeout(cut);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #build({ maxBodyBytes = 1_048_576, requestTimeoutMs }: QueueServiceOptions): FastifyInstance {
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
    app.addContentTypeParser("*", { parseAs: "buffer" }, (_request, body, done) =>
      done(null, body),
    );
    app.setErrorHandler((error, request, reply) => this.#refuse(error, request, reply));
    app.setNotFoundHandler((request, reply) => this.#refuse(notFound(request), request, reply));
    app.addHook("onRequest", (request, _reply, done) => done(this.#refusal(request)));
    const desk = this.#desk;
    app.post(`${QUEUE_PATH}*`, (request, reply) => {
      reply.code(202);
      return desk.push(partsOf(request));
    });
    app.delete(`${QUEUE_PATH}*`, (request) => desk.remove(partsOf(request)));
    app.get(`${QUEUE_PATH}*`, (request) => desk.peek(partsOf(request)));
    return app;
  }

  /** Why the request must not go on, if so. */
  #refusal({ method, headers, ip }: FastifyRequest): RopewayError | undefined {
    // A page of another site could otherwise make its reader's browser push to this machine.
    const refusal = this.#hosts.refusal({ method, headers, host: headers.host ?? "" });
    if (refusal !== undefined) return refusal;
    return this.#tokens.refusal(headers.authorization, placeOf(ip));
  }

  #refuse(error: unknown, request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const { body, headers } = problemOf(translate(error, request), request);
    if (body.status >= 500) this.#logger.error({ err: error, code: body.code }, "a push failed");
    return reply
      .code(body.status)
      .headers(headers)
      .type("application/problem+json")
      .send(JSON.stringify(body));
  }
}

/** What is wrong with a path that Fastify could not even decode. */
function pathFault(url: string): unknown {
  try {
    targetOfPath(cutPath(url));
    return undefined;
  } catch (error) {
    return error;
  }
}

function notFound({ method, raw }: FastifyRequest): RopewayError {
  const path = pathOf(raw.url ?? "");
  return path.startsWith(QUEUE_PATH)
    ? new MethodNotAllowedError(method, path, METHODS)
    : new RouteNotFoundError(method, path);
}
