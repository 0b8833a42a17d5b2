/** No two tasks have the same name, or the same type, name and configuration (md5). */
import { DuplicateTaskError } from "../errors.ts";
import { keys } from "../keys.ts";
import { absent, recordOf } from "../record.ts";
import type { Store } from "../store/store.ts";
import type { Task } from "./task.ts";

/** The conditions of a change: its new name and md5 are still free. */
export function stillUnique(before: Task, after: Task): ReturnType<typeof absent>[] {
  return [
    ...(before.taskName === after.taskName ? [] : [absent(keys.ofName(after.taskName))]),
    ...(before.md5 === after.md5 ? [] : [absent(keys.ofMd5(after.md5))]),
  ];
}

/** Throws DuplicateTaskError if another task has the new name or md5. */
export async function refuseDuplicates(store: Store, before: Task, after: Task): Promise<void> {
  for (const { key } of stillUnique(before, after)) {
    const holder = recordOf<{ taskId: string }>(await store.get(key));
    if (holder === undefined) continue;
    const field = key === keys.ofName(after.taskName) ? "name" : "md5";
    throw new DuplicateTaskError(
      field,
      field === "name" ? after.taskName : after.md5,
      holder.taskId,
    );
  }
}
