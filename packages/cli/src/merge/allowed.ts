import type { PartPlan } from "../portal/parts.ts";

/** Addresses that deliveries may reach besides public ones: with `up` those of this machine. */
export function allowedAddresses({
  settings,
  atHome,
}: Pick<PartPlan, "settings" | "atHome">): readonly string[] {
  const isSet = settings.origins["merge.allow"].source !== "default";
  return atHome && !isSet ? ["loopback"] : settings.values["merge.allow"];
}
