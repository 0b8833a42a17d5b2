import type { PartPlan } from "../portal/parts.ts";

/** What deliveries may reach besides public addresses: at home the programs there, elsewhere nothing. */
export function queueTargets({ settings, atHome }: PartPlan): readonly string[] {
  const isSaid = settings.origins["queue.targets"].source !== "default";
  return atHome && !isSaid ? ["loopback"] : settings.values["queue.targets"];
}
