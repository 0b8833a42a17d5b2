/**
 * The batches of one destination: a merge key at an endpoint. The HTTP service and the CLI push, inspect,
 * delete and pause through this class alone, so that both do the same checks: that the endpoint may be
 * called, that a merged body is JSON, and that a "-" key means one queue key per item.
 */

import { isUtf8 } from "node:buffer";
import { InvalidArgumentError } from "@ropeway/core";
import type { AddressGuard } from "../delivery/address-guard.ts";
import {
  type Destination,
  destination,
  destinationOf,
  isSingle,
  keyOf,
  pushKeyOf,
  singlePrefix,
} from "../queue/destination.ts";
import { newItemId } from "../queue/item.ts";
import type { MergeQueue, Pushed, PushOptions } from "../queue/queue.ts";
import { requireQueue } from "../queue/require-queue.ts";
import { AdminStore } from "../store/admin-store.ts";
import { Inspector, type PeekedKey, type Removed } from "./inspector.ts";

/** The page of batches to show. */
export interface PeekDestinationOptions {
  readonly cursor?: string | undefined;
  /** The maximum number of bytes of all bodies together. @default 1048576 */
  readonly maxBytes?: number;
}

/** The batches of a destination. */
export interface PeekedDestination {
  readonly batches: readonly PeekedKey[];
  /** The cursor of the next page; absent on the last one. */
  readonly cursor?: string;
}

/** The maximum number of batches on one page, and of items of each. */
const MOST_SHOWN = 100;
const CHUNK = 500;

/** Pushes to endpoints, and manages the items queued for them. */
export class EndpointQueue {
  readonly #queue: MergeQueue;
  readonly #guard: AddressGuard;
  readonly #inspector: Inspector;
  readonly #store: AdminStore;

  constructor(queue: MergeQueue, guard: AddressGuard) {
    requireQueue(queue);
    this.#queue = queue;
    this.#guard = guard;
    this.#inspector = new Inspector(queue);
    this.#store = new AdminStore(queue.redis, queue.keys);
  }

  /** A checked destination. Throws InvalidArgumentError, or BlockedEndpointError for a blocked address. */
  destination(given: { mergeKey: string; method?: string; url: string }): Destination {
    const checked = destination(given);
    this.#guard.checkLiteral(checked.url);
    return checked;
  }

  /** Stores one item for a checked destination. Resolves when it is in Redis. */
  push(
    to: Destination,
    body: string | Buffer,
    options: Omit<PushOptions, "id"> = {},
  ): Promise<Pushed> {
    try {
      return this.#push(to, body, options);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #push(to: Destination, body: string | Buffer, options: Omit<PushOptions, "id">): Promise<Pushed> {
    if (!isSingle(to.mergeKey)) checkJson(body);
    const { request, idempotencyKey } = options;
    if (request !== undefined) {
      for (const url of [request.callback, request.failureCallback]) {
        if (url !== undefined && URL.canParse(url)) this.#guard.checkLiteral(url);
      }
    }
    const id = newItemId();
    const key = pushKeyOf(to, { id, idempotencyKey });
    return this.#queue.push(key, body, { ...options, id });
  }

  /** Shows the queued batches without changing them. */
  async peek(to: Destination, options: PeekDestinationOptions = {}): Promise<PeekedDestination> {
    const { maxBytes = 1_048_576, cursor } = options;
    if (!isSingle(to.mergeKey)) {
      const batch = await this.#inspector.peek(keyOf(to, ""), {
        cursor,
        maxBytes,
        limit: MOST_SHOWN,
      });
      const next = batch.cursor === undefined ? {} : { cursor: batch.cursor };
      return { batches: batch.items === 0 ? [] : [batch], ...next };
    }
    const batches: PeekedKey[] = [];
    let left = maxBytes;
    const found = await this.#singles(to, cursor, MOST_SHOWN);
    for (const key of found.keys) {
      if (left <= 0) return { batches, cursor: String(batches.at(-1)?.key) };
      const batch = await this.#inspector.peek(key, { maxBytes: left, limit: 1 });
      left -= batch.oldest.reduce((sum, { size }) => sum + size, 0);
      batches.push(batch);
    }
    const next = found.next === undefined ? {} : { cursor: found.next };
    return { batches: batches.filter(({ items }) => items > 0), ...next };
  }

  /** Fires the queued items now. Returns their number. */
  async sendNow(to: Destination): Promise<number> {
    let items = 0;
    await this.#each(to, async (key) => {
      items += await this.#inspector.sendNow(key);
    });
    return items;
  }

  /** Deletes the queued items. */
  async remove(to: Destination): Promise<Removed> {
    const total = { deleted: 0, sending: 0 };
    await this.#each(to, async (key) => {
      const { deleted, sending } = await this.#inspector.remove(key);
      total.deleted += deleted;
      total.sending += sending;
    });
    return total;
  }

  /** Pauses the queued items; for a "-" key, the items queued now. Returns the number of keys. */
  async pause(to: Destination): Promise<number> {
    return this.#each(to, (key) => this.#inspector.pause(key));
  }

  /** Ends the pause. Returns the number of keys that were paused. */
  async resume(to: Destination): Promise<number> {
    let resumed = 0;
    await this.#each(to, async (key) => {
      if (await this.#inspector.resume(key)) resumed += 1;
    });
    return resumed;
  }

  /** Acts on every key of a destination, page by page. */
  async #each(to: Destination, act: (key: string) => Promise<unknown>): Promise<number> {
    if (!isSingle(to.mergeKey)) {
      await act(keyOf(to, ""));
      return 1;
    }
    let count = 0;
    let after: string | undefined;
    do {
      const { keys, next } = await this.#singles(to, after, CHUNK);
      await Promise.all(keys.map(act));
      count += keys.length;
      after = next;
    } while (after !== undefined);
    return count;
  }

  async #singles(
    to: Destination,
    after: string | undefined,
    most: number,
  ): Promise<{ keys: readonly string[]; next: string | undefined }> {
    const prefix = singlePrefix(to);
    if (after !== undefined && !after.startsWith(prefix)) {
      throw new InvalidArgumentError("cursor", after, "the cursor of an earlier page");
    }
    const found = await this.#store.singles(prefix, after, most);
    // A longer merge key can start with the same string.
    const keys = found.filter((key) => destinationOf(key)?.mergeKey === to.mergeKey);
    return { keys, next: found.length < most ? undefined : found.at(-1) };
  }
}

/** Throws InvalidArgumentError with the position at which a body stops being JSON. */
export function checkJson(body: string | Buffer): void {
  let why = "it is not UTF-8";
  if (typeof body === "string" || isUtf8(body)) {
    try {
      JSON.parse(String(body));
      return;
    } catch (error) {
      why = (error as Error).message;
    }
  }
  throw new InvalidArgumentError("body", String(body.slice(0, 60)), `JSON (${why})`);
}
