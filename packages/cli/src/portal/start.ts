/** Starting a portal with the settings. */
import { hostname } from "node:os";
import type { Inspector } from "@ropeway/cluster";
import { createPortal, type PortalOptions, type PortalStart } from "@ropeway/portal";
import { resolvePortalOptions } from "@ropeway/portal/internal";
import { startAfterFormer } from "../cluster/former-process.ts";
import { listenOn } from "../listen.ts";
import { namingSettings } from "../refused-option.ts";
import { secretOf } from "../secret.ts";
import type { LoadedSettings } from "../settings/load.ts";
import type { SettingKey } from "../settings/table.ts";
import { version } from "../version.ts";
import { type PartPlan, portalParts } from "./parts.ts";

/** A portal that listens. */
export interface StartedPortal extends PortalStart, AsyncDisposable {}

/** How long the cluster remembers a portal that crashed. */
const LEASE_MS = 8_000;

const OPTIONS: Readonly<Record<string, SettingKey>> = {
  host: "portal.host",
  prefix: "prefix",
  allow: "merge.allow",
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
  const { redis, store, logger, settings } = plan;
  const options = portalOptions(settings);
  const portal = createPortal(redis, { ...options, port, store, parts: portalParts(plan), logger });
  const started = await portal.start(); // closes itself if it fails
  try {
    const inspector = await startInspector(plan, started.url);
    return {
      ...started,
      async [Symbol.asyncDispose]() {
        await inspector.close();
        await portal.close();
      },
    };
  } catch (error) {
    await portal.close();
    throw error;
  }
}

/**
 * Registers the portal in the cluster, under its address, and inspects the nodes. The portal has the port,
 * so a record with its id is that of a process that crashed.
 */
function startInspector(plan: PartPlan, url: string): Promise<Inspector> {
  return startAfterFormer(LEASE_MS, () => openInspector(plan, url).start());
}

function openInspector({ cluster, settings, logger }: PartPlan, url: string): Inspector {
  const { values } = settings;
  const { port } = new URL(url);
  const inspector = cluster.inspector({
    id: `portal_${hostname().replace(/[^\w.-]/g, "_")}_${port}`,
    address: url,
    everyMs: values["inspect.everyMs"],
    probes: values["inspect.probes"],
    leaseMs: LEASE_MS,
    version,
    logger,
  });
  inspector.on("offline", (nodeId) => logger.error({ nodeId }, "a node is offline"));
  inspector.on("error", (error) => logger.warn({ err: error }, "the inspector has a problem"));
  return inspector;
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
