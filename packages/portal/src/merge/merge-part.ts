/** The merge queue in the portal: keys, letters, endpoints, attempts, schedules, and the v3 paths themselves. */

import {
  AddressGuard,
  Attempts,
  DeadLetters,
  EndpointQueue,
  Endpoints,
  Inspector,
  type MergeQueue,
  Schedules,
} from "@ropeway/merge";
import type { PermissionSpecs } from "../access/permission.ts";
import type { PortalPart } from "../part.ts";
import { addAttempts } from "./attempt-routes.ts";
import { addEndpoints } from "./endpoint-routes.ts";
import { addKeys } from "./key-routes.ts";
import { addLetters } from "./letter-routes.ts";
import { addMetrics } from "./metrics.ts";
import { addSchedules } from "./schedule-routes.ts";
import { MAX_BODY_BYTES, V3Handler } from "./v3-handler.ts";
import { addV3 } from "./v3-routes.ts";

/** What the part is given. */
export interface MergePartOptions {
  /** Addresses that may be called besides public ones. */
  readonly allow?: readonly string[];
  /** The largest body of one item pushed by v3. @default 1048576 */
  readonly maxBodyBytes?: number;
}

/** The permissions of its routes. */
export const mergePermissions: PermissionSpecs = {
  "merge:view": {
    least: "viewer",
    means: "See keys, items, dead letters, endpoints and schedules.",
  },
  "merge:push": { least: "operator", means: "Push items and delete what is queued (v3)." },
  "merge:operate": {
    least: "operator",
    means: "Send now, delete, replay, pause and schedule; limit and sign for endpoints.",
  },
};

/** The part for a merge queue. */
export function mergePart(queue: MergeQueue, options: MergePartOptions = {}): PortalPart {
  const { maxBodyBytes = MAX_BODY_BYTES } = options;
  const inspector = new Inspector(queue);
  const guard = new AddressGuard(options.allow);
  const handler = new V3Handler(queue, new EndpointQueue(queue, guard));
  return {
    name: "merge",
    about: {
      en: "The timed merge queue: pending batches, dead letters, endpoints and attempts.",
      zh: "定时合并队列：待发批次、死信、端点与投递记录。",
    },
    permissions: mergePermissions,
    routes(app) {
      addKeys(app, inspector);
      addLetters(app, new DeadLetters(queue));
      addEndpoints(app, new Endpoints(queue));
      addAttempts(app, new Attempts(queue));
      addSchedules(app, new Schedules(queue, guard));
      return addV3(app, handler, maxBodyBytes);
    },
    probes: { merge: () => inspector.check() },
    metrics: (registry) => addMetrics(registry, inspector, new Attempts(queue)),
  };
}
