/**
 * Durations as people write them: `1500`, `1500ms`, `5s`, `1.5m`, `2h`, `7d`. A number without a unit
 * is milliseconds, as in every option of the libraries.
 */
import { show } from "@ropeway/core/internal";
import type { Context } from "./context.ts";
import { UsageError } from "./errors.ts";
import { flagNameOf } from "./whole-number.ts";

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** Finishes the sentence "must be ...". */
export const DURATION_ALLOWED =
  "a number of milliseconds, or a duration such as 500ms, 5s, 2m, 1h or 7d";

/** Whole milliseconds; undefined if the string is not a duration. */
export function parseDuration(text: string): number | undefined {
  const [, number, unit = "ms"] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text.trim()) ?? [];
  if (number === undefined) return undefined;
  const ms = Number(number) * (UNITS[unit] ?? Number.NaN);
  const whole = Math.round(ms);
  // 0.5ms is refused: durations are whole milliseconds. 1.001s is accepted, although it has no exact binary form.
  return Number.isSafeInteger(whole) && Math.abs(whole - ms) < 1e-6 ? whole : undefined;
}

/** The milliseconds that an option such as --delay was given; undefined if it was not. */
export function durationOf(
  options: Context["options"],
  name: string,
  lowest: number = 0,
): number | undefined {
  const given = options[name];
  if (given === undefined) return undefined;
  const value = parseDuration(String(given));
  if (value !== undefined && value >= lowest) return value;
  const least = lowest === 0 ? "" : ` of at least ${lowest} ms`;
  throw new UsageError(
    `${flagNameOf(name)} is ${show(given)}, but must be ${DURATION_ALLOWED}${least && `,${least}`}`,
  );
}
