/**
 * Sends the result of a delivery to a callback URL. The message is an item of the same queue, under the
 * merge key "-callback", and has retries, a signature and a dead letter like any other item. It is pushed before
 * the batch ends, with an idempotency key, so that a crash in between neither loses nor duplicates it. It is
 * pushed even if Redis is out of memory, because the batch that it reports leaves Redis right after it.
 */
import { destination, destinationOf, pushKeyOf } from "../queue/destination.ts";
import { newItemId } from "../queue/item.ts";
import { addItem, type Batch, type MergeQueue } from "../queue/queue.ts";
import { QueueStore } from "../store/queue-store.ts";
import type { HttpResponse } from "./http-sender.ts";

/** The body of a callback. */
export interface CallbackBody {
  readonly type: "delivered" | "dead";
  /** The merge key, method and endpoint of the batch. */
  readonly key: string;
  readonly method: string;
  readonly url: string;
  /** The batch's webhook-id. */
  readonly batch: string;
  readonly attempt: number;
  /** The ids of its items; the ids in `failed` are tried again. */
  readonly items: readonly string[];
  readonly failed?: readonly string[];
  readonly status?: number;
  /** The first bytes of the response. */
  readonly response?: string;
  readonly reason?: string;
}

const LONGEST_RESPONSE = 4_096;

/** Pushes callbacks. */
export class Callbacks {
  readonly #queue: MergeQueue;
  readonly #store: QueueStore;

  constructor(queue: MergeQueue) {
    this.#queue = queue;
    this.#store = new QueueStore(queue.redis, queue.options);
  }

  async delivered(batch: Batch, response: HttpResponse, failed: readonly number[]): Promise<void> {
    await this.#push(batch.request.callback, batch, {
      type: "delivered",
      status: response.status,
      response: response.body.toString("utf8", 0, LONGEST_RESPONSE),
      ...(failed.length > 0 && { failed: failed.map((i) => batch.items[i]?.id ?? "") }),
    });
  }

  async dead(batch: Batch, reason: string): Promise<void> {
    await this.#push(batch.request.failureCallback, batch, { type: "dead", reason });
  }

  async #push(
    url: string | undefined,
    batch: Batch,
    news: Pick<CallbackBody, "type" | "status" | "response" | "reason" | "failed">,
  ): Promise<void> {
    const from = destinationOf(batch.key);
    if (url === undefined || from === undefined) return;
    const body: CallbackBody = {
      ...news,
      ...{ key: from.mergeKey, method: from.method, url: from.url },
      ...{ batch: batch.id, attempt: batch.attempt, items: batch.items.map(({ id }) => id) },
    };
    const id = newItemId();
    const idempotencyKey = `${batch.id}:${news.type}`;
    const to = destination({ mergeKey: "-callback", url });
    const words: (string | Buffer)[] = [];
    addItem(words, JSON.stringify(body), { id });
    await this.#store.push({
      key: pushKeyOf(to, { id, idempotencyKey }),
      // A batch that is sent again after a crash can end with another response. The first one counts.
      idempotency: { key: idempotencyKey, digest: "callback" },
      ...{ words, maxWaitMs: this.#queue.options.maxWaitMs, evenFull: true },
    });
  }
}
