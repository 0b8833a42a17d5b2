/** Boolean options of a request. */
import { InvalidArgumentError } from "@ropeway/core";

const NAMES = ["immortal", "local", "start", "afresh"] as const;

/** The flags of a request. */
export type TaskFlags = { readonly [name in (typeof NAMES)[number]]?: boolean | undefined };

/** Throws for anything else: a task that is stored as immortal: "yes" would not be immortal. */
export function flagsOf(request: TaskFlags): TaskFlags {
  for (const name of NAMES) {
    const value: unknown = request[name];
    if (value !== undefined && typeof value !== "boolean") {
      throw new InvalidArgumentError(name, value, "true or false");
    }
  }
  return request;
}
