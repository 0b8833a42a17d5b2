/** The rules for names and ids. */
import { InvalidNameError } from "@ropeway/core";

const ALLOWED = "a string of at least one character without control characters";

/** The name, if it may stand in keys and lists; throws InvalidNameError otherwise. */
export function checkName(what: string, value: unknown): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (typeof value !== "string" || value === "" || /[\x00-\x1f]/.test(value)) {
    throw new InvalidNameError(what, value, ALLOWED);
  }
  return value;
}

/** The id of what may exist: any string. */
export function checkId(value: unknown, what: string = "job id"): string {
  if (typeof value === "string") return value;
  throw new InvalidNameError(what, value, "a string");
}

/** The name of a queue: any string that is not empty, for keys escape what they must. */
export function checkQueueName(value: unknown): string {
  if (typeof value === "string" && value !== "") return value;
  throw new InvalidNameError("queue name", value, "a string of at least one character");
}
