/** Where alerts go besides the log and the portal. */
import { type AlertSink, webhookSink } from "@ropeway/cluster";
import type { Redis } from "@ropeway/core";
import { MergeQueue } from "@ropeway/merge";
import { mergeQueueOptions } from "../merge/start.ts";
import type { LoadedSettings } from "../settings/load.ts";

/** The webhook of alerts.webhook, through the installation's merge queue. */
export function alertSinks(redis: Redis, { values }: LoadedSettings): AlertSink[] {
  const url = values["alerts.webhook"];
  if (url === undefined) return [];
  return [webhookSink(new MergeQueue(redis, mergeQueueOptions(values)), { url })];
}
