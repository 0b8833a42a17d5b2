/** Starting a portal with the settings, on a port that is free or was asked for. */
import { InvalidOptionError, type Logger, type Redis } from "@ropeway/core";
import { show } from "@ropeway/core/internal";
import { createPortal, type Portal, type PortalStart } from "@ropeway/portal";
import { PortInUseError, SettingError } from "../errors.ts";
import { readSecret } from "../redis-access.ts";
import type { LoadedSettings } from "../settings/load.ts";
import type { SettingKey } from "../settings/table.ts";
import { isAddressInUse, isFree } from "../up/free-port.ts";

/** A portal that listens. */
export interface StartedPortal extends PortalStart, AsyncDisposable {}

/** What a portal is started with. */
export interface PortalPlan {
  readonly redis: Redis;
  readonly settings: LoadedSettings;
  readonly logger: Logger;
  /** Whether a busy port that nobody asked for may be replaced by a free one. */
  readonly mayMove: boolean;
}

const NEIGHBOURS = 9;

/** Starts a portal; a port that was asked for and is taken is a PortInUseError. */
export async function startPortal(plan: PortalPlan): Promise<StartedPortal> {
  const { values, origins } = plan.settings;
  const port = values["portal.port"];
  const { source, where } = origins["portal.port"];
  // The ports next to the usual one first: a person recognises them, and the next start finds the same.
  const others = Array.from({ length: NEIGHBOURS }, (_, index) => port + 1 + index);
  const candidates = plan.mayMove && source === "default" ? [port, ...others, 0] : [port];
  for (const candidate of candidates) {
    const started = await listen(plan, candidate);
    if (started !== undefined) return started;
  }
  throw new PortInUseError("portal.port", port, where);
}

/** Undefined if the port is taken. */
async function listen(plan: PortalPlan, port: number): Promise<StartedPortal | undefined> {
  // Looked at before anything is created: a start that fails must not use up the first admin's password.
  if (port !== 0 && !(await isFree(plan.settings.values["portal.host"], port))) return undefined;
  const portal = create(plan, port);
  try {
    const started = await portal.start();
    return { ...started, [Symbol.asyncDispose]: () => portal.close() };
  } catch (error) {
    await portal.close();
    if (isAddressInUse(error)) return undefined;
    throw error;
  }
}

/** A portal's refusal names its option; a person wants to know which setting that was. */
function create({ redis, logger, settings }: PortalPlan, port: number): Portal {
  const { values, origins } = settings;
  try {
    return createPortal(redis, {
      host: values["portal.host"],
      port,
      prefix: values["portal.prefix"],
      adminPassword: adminPassword(settings),
      logger,
    });
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    const { option, value, allowed } = error.details;
    const key = `portal.${option}` as SettingKey;
    const where = origins[key]?.where ?? "the settings";
    throw new SettingError({ key, value: show(value), allowed: String(allowed), where });
  }
}

function adminPassword({ values }: LoadedSettings): string | undefined {
  const file = values["portal.adminPasswordFile"];
  return values["portal.adminPassword"] ?? (file === undefined ? undefined : readSecret(file));
}
