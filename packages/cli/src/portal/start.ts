/** Starting a portal with the settings. */
import { createPortal, type PortalStart } from "@ropeway/portal";
import { listenOn } from "../listen.ts";
import { namingSettings } from "../refused-option.ts";
import { secretOf } from "../secret.ts";
import type { SettingKey } from "../settings/table.ts";
import { type PartPlan, portalParts } from "./parts.ts";

/** A portal that listens. */
export interface StartedPortal extends PortalStart, AsyncDisposable {}

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

async function startAt(port: number, plan: PartPlan): Promise<StartedPortal> {
  const { redis, logger, settings } = plan;
  const { values } = settings;
  const proxies = values["portal.trustProxy"];
  const portal = createPortal(redis, {
    host: values["portal.host"],
    port,
    prefix: values.prefix,
    trustProxy: proxies.length === 0 ? false : proxies.join(","),
    publicMetrics: values["portal.publicMetrics"],
    adminPassword: secretOf(settings, "portal.adminPassword", "portal.adminPasswordFile"),
    parts: portalParts(plan),
    logger,
  });
  const started = await portal.start(); // closes itself if it fails
  return { ...started, [Symbol.asyncDispose]: () => portal.close() };
}
