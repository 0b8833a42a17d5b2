/** Alerts as webhooks, through the merge queue: alerts that come together arrive in one delivery. */
import { RedisClock } from "@ropeway/core";
import { destination, keyOf, type MergeQueue } from "@ropeway/merge";
import type { Alert, AlertSink } from "./alerts.ts";

/** Where alerts go. */
export interface WebhookOptions {
  readonly url: string;
  /** Alerts within this time are delivered together. @default 2000 */
  readonly mergeMs?: number;
}

/** Makes the sink; the queue's dispatcher delivers, retries and signs. */
export function webhookSink(queue: MergeQueue, options: WebhookOptions): AlertSink {
  const { mergeMs = 2_000 } = options;
  const key = keyOf(destination({ mergeKey: "ropeway-alerts", url: options.url }), "");
  return async (alert: Alert) => {
    const body = JSON.stringify({ ...alert, raisedAt: new Date(alert.raisedAt).toISOString() });
    // By the clock of Redis, which the dispatchers follow: that of the portal may be an hour ahead.
    await using clock = await RedisClock.start(queue.redis);
    await queue.push(key, body, {
      at: clock.now() + mergeMs,
      update: "once",
      idempotencyKey: `${alert.id}-${alert.count}`,
    });
  };
}
