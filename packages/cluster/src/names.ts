/** Names that become part of a path. */
import { InvalidNameError } from "@ropeway/core";

const ID = /^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}$/;
const ID_ALLOWED = "1 to 128 letters, digits or _.:@- that start with a letter or digit";
const NAME_ALLOWED = 'at most 200 characters without "/", line breaks or control characters';

/** Whether it can be the id of a node, group, cluster or task. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && ID.test(value);
}

/** Refuses an id (of a node, group, cluster, task) that cannot be a part of a path. */
export function checkId(what: string, value: unknown): string {
  if (!isId(value)) throw new InvalidNameError(what, value, ID_ALLOWED);
  return value;
}

/** Refuses a task's name that cannot be a part of a path. */
export function checkTaskName(value: unknown): string {
  const usable =
    typeof value === "string" &&
    value.trim().length > 0 &&
    [...value].length <= 200 &&
    !/[/\p{C}]/u.test(value);
  if (!usable) throw new InvalidNameError("the task's name", value, NAME_ALLOWED);
  return value;
}
