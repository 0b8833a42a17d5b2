/**
 * The reports of a runner, checked and copied when they are made. A report that cannot be stored is refused there and
 * then, as an error of the runner. Found later, it would prevent the end of the run from being stored.
 */
import { InvalidArgumentError } from "@ropeway/core";
import type { KeyRecord } from "../runner.ts";

/** What a record has room for, in characters of JSON. */
export const MOST_REPORT: number = 64 * 1_024;

/** A copy by way of JSON, which later changes do not affect; undefined if it is too long to be stored. */
export function reportOf<T extends object>(name: string, report: T): T | undefined {
  if (typeof report !== "object" || report === null) {
    throw new InvalidArgumentError(name, report, "an object");
  }
  const json = JSON.stringify(report);
  return json.length > MOST_REPORT ? undefined : (JSON.parse(json) as T);
}

/** The record of a key, or an error that names the field that is not a string. */
export function keyRecordOf(name: string, record: KeyRecord): KeyRecord {
  const { key, command, type } = record ?? {};
  for (const [field, value] of Object.entries({ key, command, type })) {
    if (typeof value !== "string") {
      throw new InvalidArgumentError(`${name}.${field}`, value, "a string");
    }
  }
  return { key, command, type };
}
