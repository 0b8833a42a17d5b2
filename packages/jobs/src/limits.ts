/** A queue's limits, as numbers in `meta`: conc; max, per; gconc; gmax, gper. */
import { InvalidOptionError } from "@ropeway/core";
import { integer, milliseconds } from "@ropeway/core/internal";
import type { QueueLimits, Rate } from "./options.ts";
import type { QueueStore } from "./store.ts";

/** Writes the limits that are mentioned; what is null is taken away. */
export async function writeLimits(store: QueueStore, limits: QueueLimits): Promise<void> {
  const set: string[] = [];
  const drop: string[] = [];
  const count = (option: string, field: string, value: number | null | undefined) => {
    if (value === undefined) return;
    if (value === null) {
      drop.push(field);
      return;
    }
    const rule = integer(1);
    if (!rule.accepts(value)) throw new InvalidOptionError(option, value, rule.allowed);
    set.push(field, String(value));
  };
  const rate = (
    option: string,
    fields: readonly [string, string],
    value: Rate | null | undefined,
  ) => {
    count(`${option}.max`, fields[0], value === null ? null : value?.max);
    if (value === undefined || value === null) {
      if (value === null) drop.push(fields[1]);
      return;
    }
    const rule = milliseconds(1);
    if (!rule.accepts(value.perMs)) {
      throw new InvalidOptionError(`${option}.perMs`, value.perMs, rule.allowed);
    }
    set.push(fields[1], String(value.perMs));
  };
  count("concurrency", "conc", limits.concurrency);
  rate("rate", ["max", "per"], limits.rate);
  count("groupConcurrency", "gconc", limits.groupConcurrency);
  rate("groupRate", ["gmax", "gper"], limits.groupRate);
  const { meta, wake } = store.keys;
  if (set.length > 0) await store.send("HSET", meta, ...set);
  if (drop.length > 0) await store.send("HDEL", meta, ...drop);
  await store.send("ZADD", wake, "0", "0"); // what a limit held back may run now
}

/** The limits in force; only those that exist. */
export async function readLimits(store: QueueStore): Promise<QueueLimits> {
  const fields = ["conc", "max", "per", "gconc", "gmax", "gper"] as const;
  const values = await store.send<readonly (string | null)[]>("HMGET", store.keys.meta, ...fields);
  const [conc, max, per, gconc, gmax, gper] = values.map((v) =>
    v === null ? undefined : Number(v),
  );
  return {
    ...(conc === undefined ? {} : { concurrency: conc }),
    ...(max === undefined || per === undefined ? {} : { rate: { max, perMs: per } }),
    ...(gconc === undefined ? {} : { groupConcurrency: gconc }),
    ...(gmax === undefined || gper === undefined ? {} : { groupRate: { max: gmax, perMs: gper } }),
  };
}
