import { show } from "@ropeway/core/internal";
import type { Context } from "./context.ts";
import { UsageError } from "./errors.ts";

/** The whole number that an option such as --limit was given; undefined if it was not. */
export function wholeNumber(
  options: Context["options"],
  name: string,
  lowest: number = Number.MIN_SAFE_INTEGER,
): number | undefined {
  const text = options[name];
  if (text === undefined) return undefined;
  const value = /^-?\d+$/.test(String(text)) ? Number(text) : Number.NaN;
  if (Number.isSafeInteger(value) && value >= lowest) return value;
  const from = lowest === Number.MIN_SAFE_INTEGER ? "" : ` of at least ${lowest}`;
  throw new UsageError(`${flagNameOf(name)} is ${show(text)}, but must be a whole number${from}`);
}

/** The flag of an option: olderThan is --older-than. */
export function flagNameOf(name: string): string {
  return `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
