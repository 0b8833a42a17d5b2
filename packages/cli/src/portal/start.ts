/** Starting a portal with the settings. */
import { createPortal, type PortalOptions, type PortalStart } from "@ropeway/portal";
import { resolvePortalOptions } from "@ropeway/portal/internal";
import { listenOn } from "../listen.ts";
import { namingSettings } from "../refused-option.ts";
import { secretOf } from "../secret.ts";
import type { LoadedSettings } from "../settings/load.ts";
import type { SettingKey } from "../settings/table.ts";
import { type PartPlan, portalParts } from "./parts.ts";

/** A portal that listens. */
export interface StartedPortal extends PortalStart, AsyncDisposable {}

const OPTIONS: Readonly<Record<string, SettingKey>> = {
  host: "portal.host",
  prefix: "prefix",
  targets: "queue.targets",
  hosts: "portal.hosts",
  trustProxy: "portal.trustProxy",
  adminPassword: "portal.adminPassword",
};

/** Refuses what a portal would refuse, before anything is started or downloaded. */
export function checkPortalSettings(settings: LoadedSettings): Promise<void> {
  return namingSettings(settings, OPTIONS, async () => {
    resolvePortalOptions(portalOptions(settings));
  });
}

/** Starts a portal. */
export async function startPortal(plan: PartPlan): Promise<StartedPortal> {
  const { settings } = plan;
  return namingSettings(settings, OPTIONS, () =>
    listenOn({ ...plan, key: "portal.port" }, (port) => startAt(port, plan)),
  );
}

async function startAt(port: number, plan: PartPlan): Promise<StartedPortal> {
  const { redis, logger, settings } = plan;
  const options = portalOptions(settings);
  const portal = createPortal(redis, { ...options, port, parts: portalParts(plan), logger });
  const started = await portal.start(); // closes itself if it fails
  return { ...started, [Symbol.asyncDispose]: () => portal.close() };
}

function portalOptions(settings: LoadedSettings): PortalOptions {
  const { values } = settings;
  const proxies = values["portal.trustProxy"];
  return {
    host: values["portal.host"],
    prefix: values.prefix,
    hosts: values["portal.hosts"],
    trustProxy: proxies.length === 0 ? false : proxies.join(","),
    publicMetrics: values["portal.publicMetrics"],
    adminPassword: secretOf(settings, "portal.adminPassword", "portal.adminPasswordFile"),
  };
}
