import type { LoadedSettings } from "../settings/load.ts";

/** What deliveries may reach besides public addresses: on one's own machine usually programs there. */
export function queueTargets({ values, origins }: LoadedSettings): readonly string[] {
  return origins["queue.targets"].source === "default" ? ["loopback"] : values["queue.targets"];
}
