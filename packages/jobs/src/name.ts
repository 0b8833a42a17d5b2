/** The rules for names and ids. */
import { InvalidNameError } from "@ropeway/core";
import { type Rule, satisfying } from "@ropeway/core/internal";

/**
 * Half of a surrogate pair, for example from an emoji that was cut in two. UTF-8 cannot encode it: two names with
 * such a half would become the same, and Redis's scripts cannot read its JSON.
 */
const HALF = /\p{Surrogate}/u;

/** The rule for names in keys and lists. */
export const NAME: Rule<string> = satisfying<string>(
  "a string of at least one character without control characters and halves of surrogate pairs",
  (value) =>
    // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
    typeof value === "string" && value !== "" && !/[\x00-\x1f]/.test(value) && !HALF.test(value),
);

/** Returns the name if keys and lists may contain it. Throws InvalidNameError otherwise. */
export function checkName(what: string, value: unknown): string {
  if (NAME.accepts(value)) return value;
  throw new InvalidNameError(what, value, NAME.allowed);
}

/** The id of a job that may exist: any string. */
export function checkId(value: unknown, what: string = "job id"): string {
  if (typeof value === "string") return value;
  throw new InvalidNameError(what, value, "a string");
}

/** The name of a queue: any string that is not empty and has a UTF-8 form. Keys escape special characters. */
export function checkQueueName(value: unknown): string {
  if (typeof value === "string" && value !== "" && !HALF.test(value)) return value;
  const allowed = "a string of at least one character without halves of surrogate pairs";
  throw new InvalidNameError("queue name", value, allowed);
}
