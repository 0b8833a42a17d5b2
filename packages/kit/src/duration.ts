/** Durations that Redis can store. */
import { type Rule, satisfying } from "@ropeway/core/internal";

/** 100 years; Redis refuses times that overflow. */
const MAX_MS = 3_153_600_000_000;

/** Whole milliseconds, or null for no bound. */
export function durationOrNull(min: number): Rule<number | null> {
  return satisfying(`a whole number of milliseconds of at least ${min}, or null`, (value) => {
    if (value === null) return true;
    return Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= MAX_MS;
  });
}
