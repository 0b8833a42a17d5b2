/** A queue's limits, as numbers in `meta`: conc; max, per; gconc; gmax, gper. */
import { InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import { between, integer, type Rule } from "@ropeway/core/internal";
import { LONGEST_MS, type QueueLimits, type Rate } from "../options.ts";
import type { AdminStore } from "../store/admin-store.ts";

const COUNT = integer(1);
const PERIOD = between(1, LONGEST_MS);
const FIELDS = ["conc", "max", "per", "gconc", "gmax", "gper"] as const;
const KNOWN = ["concurrency", "rate", "groupConcurrency", "groupRate"];

/** Writes the given limits. A limit that is null is removed. */
export async function writeLimits(store: AdminStore, limits: QueueLimits): Promise<void> {
  if (typeof limits !== "object" || limits === null) {
    throw new InvalidArgumentError("limits", limits, "an object");
  }
  const set: [string, string][] = [];
  const remove: string[] = [];
  for (const name of Object.keys(limits)) {
    if (KNOWN.includes(name)) continue;
    const value = limits[name as keyof QueueLimits];
    throw new InvalidOptionError(name, value, `one of ${KNOWN.join(", ")}`);
  }
  const number = (option: string, value: unknown, [field, rule]: [string, Rule<number>]) => {
    if (!rule.accepts(value)) throw new InvalidOptionError(option, value, rule.allowed);
    set.push([field, String(value)]);
  };
  const count = (option: string, field: string, value: number | null | undefined) => {
    if (value === null) remove.push(field);
    else if (value !== undefined) number(option, value, [field, COUNT]);
  };
  const rate = (option: string, fields: readonly [string, string], value?: Rate | null) => {
    if (value === null) remove.push(...fields);
    else if (value !== undefined) {
      number(`${option}.max`, value.max, [fields[0], COUNT]);
      number(`${option}.perMs`, value.perMs, [fields[1], PERIOD]);
    }
  };
  count("concurrency", "conc", limits.concurrency);
  rate("rate", ["max", "per"], limits.rate);
  count("groupConcurrency", "gconc", limits.groupConcurrency);
  rate("groupRate", ["gmax", "gper"], limits.groupRate);
  await store.setLimits(set, remove);
}

/** The limits in force. */
export async function readLimits(store: AdminStore): Promise<QueueLimits> {
  const [conc, max, per, gconc, gmax, gper] = await store.limits(FIELDS);
  return {
    ...(conc === undefined ? {} : { concurrency: conc }),
    ...(max === undefined || per === undefined ? {} : { rate: { max, perMs: per } }),
    ...(gconc === undefined ? {} : { groupConcurrency: gconc }),
    ...(gmax === undefined || gper === undefined ? {} : { groupRate: { max: gmax, perMs: gper } }),
  };
}
