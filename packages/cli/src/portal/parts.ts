/** What the portal of `up` and `portal` can do. A new part is a line in portalParts(). */
import type { Cluster, Store } from "@ropeway/cluster";
import type { Logger, Redis } from "@ropeway/core";
import { MergeQueue } from "@ropeway/merge";
import {
  alertsPart,
  jobsPart,
  kitPart,
  mergePart,
  nodesPart,
  type PortalPart,
  rpcPart,
  tasksPart,
} from "@ropeway/portal";
import { allowedAddresses } from "../merge/allowed.ts";
import { mergeQueueOptions } from "../merge/start.ts";
import type { LoadedSettings } from "../settings/load.ts";

/** What a part of Ropeway is started with. */
export interface PartPlan {
  readonly redis: Redis;
  /** Where the cluster keeps its state. */
  readonly store: Store;
  readonly cluster: Cluster;
  readonly settings: LoadedSettings;
  readonly logger: Logger;
  /**
   * Whether this is `up`, on a developer's machine. Then a busy default port may be
   * replaced by a free one, and deliveries may reach the programs of the machine.
   */
  readonly atHome: boolean;
}

export function portalParts(plan: PartPlan): PortalPart[] {
  const { redis, settings, cluster } = plan;
  const { prefix } = settings.values;
  const queue = new MergeQueue(redis, mergeQueueOptions(settings.values));
  return [
    mergePart(queue, {
      allow: allowedAddresses(plan),
      maxBodyBytes: settings.values["merge.maxBodyBytes"],
    }),
    jobsPart(redis, { prefix: `${prefix}:jobs` }),
    rpcPart(redis),
    tasksPart(cluster),
    nodesPart(cluster),
    alertsPart(cluster),
    kitPart(redis),
  ];
}
