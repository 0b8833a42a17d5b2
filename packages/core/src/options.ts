/**
 * Options are merged and checked once, when an object is created. A table gives each option's
 * default and rule. An invalid value, or an unknown name, throws an
 * InvalidOptionError that names both, before anything is done.
 */
import { InvalidArgumentError, InvalidOptionError } from "./errors.ts";

/** The rule of one option: `accepts` decides, `allowed` completes the sentence "must be ...". */
export interface Rule<T> {
  readonly allowed: string;
  accepts(value: unknown): value is T;
}

/** An option's default and its rule. */
export interface OptionSpec<T> {
  readonly default: T;
  readonly rule: Rule<T>;
}

/** The table of all options of one object. */
export type OptionTable<T extends object> = {
  readonly [K in keyof Required<T>]-?: OptionSpec<Required<T>[K]>;
};

/**
 * Fills in the defaults and checks every given value against its rule. `instead` has defaults that replace those in
 * the table, for the options of one call.
 */
export function resolveOptions<T extends object>(
  table: OptionTable<T>,
  given: Partial<T> | undefined,
  instead: Partial<T> = {},
): Required<T> {
  const resolved: Record<string, unknown> = {};
  const specs = table as Record<string, OptionSpec<unknown>>;
  if (
    given !== undefined &&
    given !== null &&
    (typeof given !== "object" || Array.isArray(given))
  ) {
    const known = Object.keys(specs).join(", ");
    throw new InvalidArgumentError("options", given, `an object with any of ${known}`);
  }
  for (const [name, spec] of Object.entries(specs)) resolved[name] = spec.default;
  Object.assign(resolved, instead);
  for (const [name, value] of Object.entries(given ?? {})) {
    if (value === undefined) continue;
    const spec = Object.hasOwn(specs, name) ? specs[name] : undefined;
    if (spec === undefined) {
      throw new InvalidOptionError(name, value, unknownOption(name, Object.keys(specs)));
    }
    if (!spec.rule.accepts(value)) throw new InvalidOptionError(name, value, spec.rule.allowed);
    resolved[name] = value;
  }
  return resolved as Required<T>;
}

/** A whole number in a range. */
export function integer(min: number, max: number = Number.MAX_SAFE_INTEGER): Rule<number> {
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  return {
    allowed: `a whole number ${range}`,
    accepts: (value): value is number =>
      Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max,
  };
}

/** A duration in milliseconds; fractions are allowed, Infinity is not. */
export function milliseconds(min: number = 0): Rule<number> {
  return {
    allowed: `a number of milliseconds of at least ${min}`,
    accepts: (value): value is number =>
      typeof value === "number" && Number.isFinite(value) && value >= min,
  };
}

/** A number in a range, ends included. */
export function between(min: number, max: number): Rule<number> {
  return {
    allowed: `a number from ${min} to ${max}`,
    accepts: (value): value is number => typeof value === "number" && value >= min && value <= max,
  };
}

/** true or false. */
export const flag: Rule<boolean> = {
  allowed: "true or false",
  accepts: (value): value is boolean => typeof value === "boolean",
};

/** A string with at least one character. */
export const text: Rule<string> = {
  allowed: "a non-empty string",
  accepts: (value): value is string => typeof value === "string" && value.length > 0,
};

/** One of several words. */
export function oneOf<const W extends string>(...words: readonly W[]): Rule<W> {
  return {
    allowed: `one of ${words.join(", ")}`,
    accepts: (value): value is W => words.includes(value as W),
  };
}

/** Any value that passes the test; `allowed` describes it. */
export function satisfying<T>(allowed: string, test: (value: unknown) => boolean): Rule<T> {
  return { allowed, accepts: (value): value is T => test(value) };
}

/** A value that follows the rule, or undefined. */
export function optional<T>(rule: Rule<T>): Rule<T | undefined> {
  return {
    allowed: `${rule.allowed}, or undefined`,
    accepts: (value): value is T | undefined => value === undefined || rule.accepts(value),
  };
}

function unknownOption(name: string, known: readonly string[]): string {
  const near = closest(name, known);
  return near === undefined
    ? `one of the known options (${known.join(", ")})`
    : `a known option: did you mean ${near}?`;
}

/** The known word nearest to `word`, if at most a third of its letters differ. */
export function closest(word: string, known: readonly string[]): string | undefined {
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  for (const candidate of known) {
    const distance = editDistance(word.toLowerCase(), candidate.toLowerCase());
    if (distance < bestDistance && distance <= Math.ceil(candidate.length / 3)) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const current = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = (previous[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      current.push(Math.min(replaced, (previous[j] ?? 0) + 1, (current[j - 1] ?? 0) + 1));
    }
    previous = current;
  }
  return previous[b.length] ?? 0;
}
