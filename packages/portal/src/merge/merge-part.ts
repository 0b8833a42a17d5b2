/** The merge queue in the portal: keys, dead letters, endpoints, attempts, and the v3 paths themselves. */
import {
  AddressGuard,
  Attempts,
  DeadLetters,
  EndpointQueue,
  Endpoints,
  Inspector,
  type MergeQueue,
} from "@ropeway/merge";
import { Gauge, type Registry } from "prom-client";
import type { PortalPart } from "../part.ts";
import { addAttempts } from "./attempt-routes.ts";
import { addEndpoints } from "./endpoint-routes.ts";
import { addKeys } from "./key-routes.ts";
import { addLetters } from "./letter-routes.ts";
import { V3Handler } from "./v3-handler.ts";
import { addV3 } from "./v3-routes.ts";

/** What the part is given. */
export interface MergePartOptions {
  /** Addresses that may be called besides public ones. */
  readonly allow?: readonly string[];
}

/** The part for a merge queue. */
export function mergePart(queue: MergeQueue, options: MergePartOptions = {}): PortalPart {
  const inspector = new Inspector(queue);
  const handler = new V3Handler(queue, new EndpointQueue(queue, new AddressGuard(options.allow)));
  return {
    name: "merge",
    about: {
      en: "The timed merge queue: pending batches, dead letters, endpoints and attempts.",
      zh: "定时合并队列：待发批次、死信、端点与投递记录。",
    },
    permissions: {
      "merge:view": { least: "viewer", means: "See keys, items, dead letters and endpoints." },
      "merge:push": { least: "operator", means: "Push items and delete what is queued (v3)." },
      "merge:operate": {
        least: "operator",
        means: "Send now, delete, replay, pause, limit and sign for endpoints.",
      },
    },
    routes(app) {
      addKeys(app, inspector);
      addLetters(app, new DeadLetters(queue));
      addEndpoints(app, new Endpoints(queue));
      addAttempts(app, new Attempts(queue));
      return addV3(app, handler);
    },
    metrics: (registry) => addMetrics(registry, inspector),
  };
}

/** The gauges that /metrics shows; docs/reference/metrics.md lists them. */
export const MERGE_GAUGES = {
  keys: ["ropeway_merge_keys", "Keys of the merge queue with items."],
  due: ["ropeway_merge_due_keys", "Keys that are due and not taken yet."],
  deadLetters: ["ropeway_merge_dead_letters", "Batches that were given up."],
  oldestDueMs: ["ropeway_merge_oldest_due_seconds", "How long the oldest due key has been due."],
  broken: ["ropeway_merge_broken_keys", "Keys that were set aside because their list is no list."],
} as const;

function addMetrics(registry: Registry, inspector: Inspector): void {
  const registers = [registry];
  const { keys, ...others } = MERGE_GAUGES;
  const rest = Object.entries(others).map(([field, [name, help]]) => {
    return { field, gauge: new Gauge({ name, help, registers }) };
  });
  new Gauge({
    name: keys[0],
    help: keys[1],
    registers,
    async collect() {
      // One look serves them all; while Redis is away they stay as they were.
      const stats = await inspector.stats().catch(() => undefined);
      if (stats === undefined) return;
      this.set(stats.keys);
      for (const { field, gauge } of rest) {
        const value = Number(stats[field as keyof typeof stats]);
        gauge.set(field === "oldestDueMs" ? value / 1_000 : value);
      }
    },
  });
}
