/** Starting a portal with the settings. */
import type { Logger, Redis } from "@ropeway/core";
import { createPortal, type PortalStart } from "@ropeway/portal";
import { listenOn } from "../listen.ts";
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
  adminPassword: "portal.adminPassword",
};

/** Starts a portal. */
export async function startPortal(plan: PartPlan): Promise<StartedPortal> {
  const { settings } = plan;
  return namingSettings(settings, OPTIONS, () =>
    // A start that fails must not use up the first admin, whose password would be lost: listenOn()
    // looks at the port before a portal exists.
    listenOn({ ...plan, key: "portal.port" }, (port) => startAt(port, plan)),
  );
}

async function startAt(
  port: number,
  { redis, logger, settings }: PartPlan,
): Promise<StartedPortal> {
  const { values } = settings;
  const portal = createPortal(redis, {
    host: values["portal.host"],
    port,
    prefix: values.prefix,
    adminPassword: adminPassword(settings),
    logger,
  });
  try {
    const started = await portal.start();
    return { ...started, [Symbol.asyncDispose]: () => portal.close() };
  } catch (error) {
    await portal.close();
    throw error;
  }
}

function adminPassword({ values }: LoadedSettings): string | undefined {
  const file = values["portal.adminPasswordFile"];
  return values["portal.adminPassword"] ?? (file === undefined ? undefined : readSecret(file));
}
