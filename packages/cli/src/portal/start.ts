/** Starting a portal with the settings. */
import type { Logger, Redis } from "@ropeway/core";
import { MergeQueue } from "@ropeway/merge";
import { createPortal, jobsPart, type PortalStart, queuePart } from "@ropeway/portal";
import { listenOn } from "../listen.ts";
import { queueTargets } from "../queue/targets.ts";
import { readSecret } from "../redis-access.ts";
import { namingSettings } from "../refused-option.ts";
import type { LoadedSettings } from "../settings/load.ts";
import type { SettingKey } from "../settings/table.ts";

/** A portal that listens. */
export interface StartedPortal extends PortalStart, AsyncDisposable {}

/** What a part of Ropeway is started with. */
export interface PartPlan {
  readonly redis: Redis;
  readonly settings: LoadedSettings;
  readonly logger: Logger;
  /** Whether a busy port that nobody asked for may be replaced by a free one. */
  readonly mayMove: boolean;
}

const OPTIONS: Readonly<Record<string, SettingKey>> = {
  host: "portal.host",
  prefix: "prefix",
  targets: "queue.targets",
  trustProxy: "portal.trustProxy",
  adminPassword: "portal.adminPassword",
};

/** Starts a portal. */
export async function startPortal(plan: PartPlan): Promise<StartedPortal> {
  const { settings } = plan;
  return namingSettings(settings, OPTIONS, () =>
    listenOn({ ...plan, key: "portal.port" }, (port) => startAt(port, plan)),
  );
}

async function startAt(
  port: number,
  { redis, logger, settings }: PartPlan,
): Promise<StartedPortal> {
  const { values } = settings;
  const proxies = values["portal.trustProxy"];
  const queue = new MergeQueue(redis, { prefix: `${values.prefix}:{merge}` });
  const portal = createPortal(redis, {
    host: values["portal.host"],
    port,
    prefix: values.prefix,
    trustProxy: proxies.length === 0 ? false : proxies.join(","),
    publicMetrics: values["portal.publicMetrics"],
    adminPassword: adminPassword(settings),
    parts: [
      queuePart(queue, { targets: queueTargets(settings) }),
      jobsPart(redis, { prefix: `${values.prefix}:jobs` }),
    ],
    logger,
  });
  const started = await portal.start(); // closes itself if it fails
  return { ...started, [Symbol.asyncDispose]: () => portal.close() };
}

function adminPassword({ values }: LoadedSettings): string | undefined {
  const file = values["portal.adminPasswordFile"];
  return values["portal.adminPassword"] ?? (file === undefined ? undefined : readSecret(file));
}
