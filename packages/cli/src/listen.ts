/** Listens on the port of the settings, or on a free one near the default. */
import { PortInUseError } from "./errors.ts";
import type { LoadedSettings } from "./settings/load.ts";
import type { SettingKey } from "./settings/table.ts";
import { isAddressInUse } from "./up/free-port.ts";

/** Which port, and whether it may be another one. */
export interface PortPlan {
  readonly key: SettingKey & `${string}.port`;
  readonly settings: LoadedSettings;
  /** Whether a busy default port may be replaced by a free one. */
  readonly atHome: boolean;
}

const NEIGHBOURS = 9;

/**
 * Calls `listen` with a port until one is free. A port that the user chose
 * and is taken is a PortInUseError.
 */
export async function listenOn<T>(
  { key, settings, atHome }: PortPlan,
  listen: (port: number) => Promise<T>,
): Promise<T> {
  const port = settings.values[key];
  const { source, where } = settings.origins[key];
  // The ports next to the usual one first: people recognise them, and the next start finds the same.
  const others = Array.from({ length: NEIGHBOURS }, (_, index) => port + 1 + index);
  const candidates = atHome && source === "default" ? [port, ...others, 0] : [port];
  for (const candidate of candidates) {
    try {
      return await listen(candidate);
    } catch (error) {
      if (!isAddressInUse(error)) throw error;
    }
  }
  throw new PortInUseError(key, port, where);
}
