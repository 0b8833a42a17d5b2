/**
 * Serves v3 requests for both listeners: the merge queue's own port and the portal. Parsing a path's
 * method and URL costs more than the rest of a push, and few endpoints get many pushes: the parsed and
 * checked ones are remembered.
 */
import { InvalidArgumentError, NotConnectedError } from "@ropeway/core";
import type { Destination, EndpointQueue, MergeQueue, PeekedKey, Removed } from "@ropeway/merge";
import { requestOf } from "./v3-headers.ts";
import {
  checkQuery,
  cutPath,
  destinationOfPath,
  mergeKeyOf,
  readBody,
  readQuery,
} from "./v3-request.ts";

/** The parts of a request that matter. */
export interface V3Request {
  /** Path and query as they were sent. */
  readonly url: string;
  readonly query: unknown;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body?: unknown;
}

/** The response to a push. */
export interface V3Pushed {
  readonly id: string;
  /** The merge key. */
  readonly key: string;
  /** Unix seconds. */
  readonly ontime: number;
  readonly items: number;
}

/** The default of the largest body of one item. */
export const MAX_BODY_BYTES = 1_048_576;
/** Bounds of the remembered paths: about 3 MB. */
const REMEMBERED = 1_000;
const LONGEST_REMEMBERED = 1_024;

/** Handles pushes, deletions and reads. */
export class V3Handler {
  readonly #queue: MergeQueue;
  readonly #endpoints: EndpointQueue;
  readonly #known = new Map<string, Omit<Destination, "mergeKey">>();

  constructor(queue: MergeQueue, endpoints: EndpointQueue) {
    this.#queue = queue;
    this.#endpoints = endpoints;
  }

  /** Stores the body; when this resolves it is in Redis. */
  async push({ url, query, headers, body: raw }: V3Request): Promise<V3Pushed> {
    const to = this.#destination(url);
    const { update, at, maxWaitMs } = readQuery(query as Record<string, unknown>);
    const bytes = Buffer.isBuffer(raw) ? raw : Buffer.alloc(0);
    const { content, contentType } = readBody(to, bytes, headers["content-type"]);
    const given = headers["idempotency-key"];
    const idempotencyKey = given === undefined ? undefined : String(given);
    const request = requestOf(to, headers);
    this.#checkRedis();
    const options = { at, update, contentType, idempotencyKey, maxWaitMs, request };
    const pushed = await this.#endpoints.push(to, content, options);
    const { id, items } = pushed;
    return { id, key: to.mergeKey, ontime: pushed.at / 1_000, items };
  }

  /** Deletes what is queued; `sending` only if some of it is on its way already. */
  async remove({ url }: V3Request): Promise<Pick<Removed, "deleted"> & Partial<Removed>> {
    const to = this.#destination(url);
    this.#checkRedis();
    const { deleted, sending } = await this.#endpoints.remove(to);
    return sending > 0 ? { deleted, sending } : { deleted };
  }

  /** What is queued, a page of at most 1 MiB of bodies. */
  async peek({ url, query }: V3Request): Promise<object> {
    const to = this.#destination(url);
    checkQuery(query as Record<string, unknown>, ["cursor"]);
    const { cursor: given } = query as { cursor?: unknown };
    if (given !== undefined && typeof given !== "string") {
      throw new InvalidArgumentError("cursor", given, "the cursor of an earlier page");
    }
    this.#checkRedis();
    const { batches, cursor } = await this.#endpoints.peek(to, { cursor: given });
    const items = batches.reduce((sum, batch) => sum + batch.items, 0);
    const { mergeKey: key, method, url: service } = to;
    const page = cursor === undefined ? {} : { cursor };
    return { key, method, service, items, batches: batches.map(batchView), ...page };
  }

  #destination(url: string): Destination {
    const path = cutPath(url);
    const known = this.#known.get(path.rest);
    if (known !== undefined) {
      return { mergeKey: mergeKeyOf(path), method: known.method, url: known.url };
    }
    const to = this.#endpoints.destination(destinationOfPath(path));
    if (path.rest.length > LONGEST_REMEMBERED) return to;
    if (this.#known.size >= REMEMBERED) this.#known.clear();
    // A copy: a part of the request's URL would keep all of it in memory.
    const rest = Buffer.from(path.rest, "latin1").toString("latin1");
    this.#known.set(rest, { method: to.method, url: to.url });
    return to;
  }

  /** Fails soon: no request waits for a Redis that is unreachable. */
  #checkRedis(): void {
    const { redis } = this.#queue;
    if (!redis.connected) throw new NotConnectedError(redis.where, 0);
  }
}

/** A batch in the words of v3, whose times are unix seconds. */
function batchView({ at, items, state, paused, attempts, error, oldest }: PeekedKey): object {
  return {
    ...{ ontime: at === undefined ? undefined : at / 1_000, items, state, paused, attempts, error },
    oldest: oldest.map(({ id, pushedAt, contentType = "application/json", body, size }) => ({
      ...{ id, pushedAt: pushedAt / 1_000, contentType, size },
      body: body.toString("utf8"),
    })),
  };
}
