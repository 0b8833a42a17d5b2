/**
 * What the v3 queue does with a request, whoever received it: the listener on its own port, or the
 * portal. Reading a path's method and URL costs more than all the rest, and few URLs are many pushes:
 * those that were read and checked are remembered.
 */
import { NotConnectedError } from "@ropeway/core";
import { Inspector, keyOf, type MergeQueue, type Removed, type Target } from "@ropeway/merge";
import { type AddressGuard, isSingle, newItemId, pushKeyOf } from "@ropeway/merge/internal";
import { cutPath, mergeKeyOf, readBody, readQuery, targetOfPath } from "./v3-request.ts";

/** The parts of a request that matter. */
export interface V3Request {
  /** Path and query as they were sent. */
  readonly url: string;
  readonly query: unknown;
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly body?: unknown;
}

/** A request of either listener; the raw URL, since Fastify's is decoded. */
export function partsOf(request: {
  readonly raw: { readonly url?: string | undefined };
  readonly query: unknown;
  readonly headers: V3Request["headers"];
  readonly body: unknown;
}): V3Request {
  const { raw, query, headers, body } = request;
  return { url: raw.url ?? "", query, headers, body };
}

/** The answer to a push. */
export interface V3Pushed {
  readonly id: string;
  /** The merge key. */
  readonly key: string;
  readonly ontime: number;
  readonly items: number;
}

const PEEKED = 100;
const REMEMBERED = 10_000;

/** Takes pushes, deletions and looks. */
export class V3Desk {
  readonly #queue: MergeQueue;
  readonly #inspector: Inspector;
  readonly #guard: AddressGuard;
  readonly #known = new Map<string, Target>();

  constructor(queue: MergeQueue, guard: AddressGuard) {
    this.#queue = queue;
    this.#inspector = new Inspector(queue);
    this.#guard = guard;
  }

  /** Stores the body; when this resolves it is in Redis. */
  async push({ url, query, headers, body: raw }: V3Request): Promise<V3Pushed> {
    const target = this.#target(url);
    const { update, ontime, maxWaitMs } = readQuery(query as Record<string, unknown>);
    const bytes = Buffer.isBuffer(raw) ? raw : Buffer.alloc(0);
    const body = readBody(target, bytes, headers["content-type"] as string | undefined);
    const given = headers["idempotency-key"];
    const idempotencyKey = given === undefined ? undefined : String(given);
    this.#checkRedis();
    const id = newItemId();
    const key = pushKeyOf(target, id, idempotencyKey);
    const pushed = await this.#queue.push(key, body.content, {
      ontime,
      overwrite: update,
      contentType: body.contentType,
      idempotencyKey,
      maxWaitMs,
      id,
    });
    const { items } = pushed;
    return { id: pushed.id, key: target.mergeKey, ontime: pushed.ontime, items };
  }

  /** Deletes all that is queued; `sending` only if some of it is on its way already. */
  async remove({ url }: V3Request): Promise<Pick<Removed, "deleted"> & Partial<Removed>> {
    const target = this.#target(url);
    this.#checkRedis();
    const keys = await this.#keysOf(target);
    const removed = await Promise.all(keys.map((key) => this.#inspector.remove(key)));
    const deleted = removed.reduce((sum, each) => sum + each.deleted, 0);
    const sending = removed.reduce((sum, each) => sum + each.sending, 0);
    return sending > 0 ? { deleted, sending } : { deleted };
  }

  /** What is queued, without touching it. */
  async peek({ url }: V3Request): Promise<object> {
    const target = this.#target(url);
    this.#checkRedis();
    const keys = (await this.#keysOf(target)).slice(0, PEEKED);
    const peeked = await Promise.all(keys.map((key) => this.#inspector.peek(key, PEEKED)));
    const batches = peeked
      .filter(({ items }) => items > 0)
      .map(({ ontime, items, state, paused, attempts, error, oldest }) => ({
        ...{ ontime, items, state, paused, attempts, error },
        oldest: oldest.map(({ id, pushedAt, contentType = "application/json", body }) => ({
          ...{ id, pushedAt: pushedAt / 1_000, contentType },
          body: body.toString("utf8"),
        })),
      }));
    const items = batches.reduce((sum, batch) => sum + batch.items, 0);
    const { mergeKey, method, url: service } = target;
    return { key: mergeKey, method, service, items, batches };
  }

  async #keysOf(target: Target): Promise<readonly string[]> {
    return isSingle(target.mergeKey) ? this.#inspector.keysOf(target) : [keyOf(target, "")];
  }

  #target(url: string): Target {
    const path = cutPath(url);
    const known = this.#known.get(path.rest);
    if (known !== undefined) return { ...known, mergeKey: mergeKeyOf(path) };
    const target = targetOfPath(path);
    this.#guard.checkLiteral(target.url);
    if (this.#known.size >= REMEMBERED) this.#known.clear();
    this.#known.set(path.rest, target);
    return target;
  }

  /** An answer soon: no request waits for a Redis that is away. */
  #checkRedis(): void {
    const { redis } = this.#queue;
    if (!redis.connected) throw new NotConnectedError(redis.where, 0);
  }
}
