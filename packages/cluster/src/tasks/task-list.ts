/**
 * Lists tasks by any of their indexes. Pages go by task id, so a cursor is right on every portal and
 * while tasks come and go: a task that is there all the time is seen exactly once.
 */
import { InvalidArgumentError, type Page } from "@ropeway/core";
import { keys } from "../keys.ts";
import { checkId, checkTaskName, isId } from "../names.ts";
import { getMany, recordOf } from "../record.ts";
import type { RangeResult, Store } from "../store/store.ts";
import { decodeCursor, encodeCursor } from "./cursor.ts";
import { TASK_STATUSES, type TaskStatus } from "./status.ts";
import { type Task, taskOf } from "./task.ts";

/** Which tasks; several conditions must all hold. */
export interface TaskFilter {
  readonly status?: string | undefined;
  readonly node?: string | undefined;
  readonly group?: string | undefined;
  readonly name?: string | undefined;
  readonly type?: string | undefined;
  /** Only tasks of these groups, whatever else is asked for. */
  readonly groups?: readonly string[] | undefined;
  readonly cursor?: string | undefined;
  /** From 1 to 500. @default 50 */
  readonly limit?: number | undefined;
}

/** How many tasks one call looks at; a page may be short, its cursor goes on. */
const MOST_LOOKED_AT = 2_000;
const MOST_ITEMS = 500;

/** One page of tasks. */
export async function listTasks(store: Store, filter: TaskFilter): Promise<Page<Task>> {
  const limit = filter.limit ?? 50;
  if (!Number.isInteger(limit) || limit < 1 || limit > MOST_ITEMS) {
    throw new InvalidArgumentError("limit", limit, `a whole number from 1 to ${MOST_ITEMS}`);
  }
  let after = decodeCursor(filter.cursor);
  if (filter.name !== undefined) return byName(store, filter);
  const prefixes = prefixesOf(filter);
  const items: Task[] = [];
  for (let looked = 0; looked < MOST_LOOKED_AT; ) {
    const { ids, more } = await nextIds(store, prefixes, { after, limit: Math.min(limit, 128) });
    looked += ids.length;
    for (const { id, task } of await load(store, ids)) {
      after = id;
      if (task !== undefined && matches(task, filter)) items.push(task);
      if (items.length === limit) break;
    }
    if (!more && after === (ids.at(-1) ?? after)) return { items };
    if (items.length === limit) break;
  }
  return { items, cursor: encodeCursor(after ?? "") };
}

/** The next ids in any of the indexes, in order; at least one if there is a next. */
async function nextIds(
  store: Store,
  prefixes: readonly string[],
  { after, limit }: { readonly after: string | undefined; readonly limit: number },
): Promise<{ readonly ids: readonly string[]; readonly more: boolean }> {
  const pages = await Promise.all(
    prefixes.map((prefix) =>
      store.range(prefix, { limit, after: after === undefined ? undefined : `${prefix}${after}` }),
    ),
  );
  // What follows the prefix, also if it is no id: the next page begins behind it.
  const idsOf = ({ entries }: RangeResult, nth: number) =>
    entries.map(({ key }) => key.slice(prefixes[nth]?.length));
  // What an index has behind its page may be next: nothing after the end of a page is sure yet.
  const ends = pages.flatMap((page, nth) => (page.more ? idsOf(page, nth).slice(-1) : []));
  const [end] = ends.sort(byBytes);
  const found = pages.flatMap(idsOf).sort(byBytes);
  const sure = end === undefined ? found : found.slice(0, found.indexOf(end) + 1);
  const ids = sure.slice(0, limit);
  return { ids, more: end !== undefined || ids.length < found.length };
}

/** The order of the store. */
function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

async function load(store: Store, ids: readonly string[]) {
  const entries =
    ids.length === 0
      ? []
      : await getMany(
          store,
          ids.map((id) => keys.task(id)),
        );
  return ids.map((id, index) => ({ id, task: isPath(id) ? undefined : taskOf(entries[index]) }));
}

/** A path of another program below one of ours. */
function isPath(id: string): boolean {
  return id.includes("/");
}

async function byName(store: Store, filter: TaskFilter): Promise<Page<Task>> {
  const key = keys.ofName(checkTaskName(filter.name));
  const id = recordOf<{ taskId: string }>(await store.get(key))?.taskId;
  const task = id === undefined ? undefined : taskOf(await store.get(keys.task(id)));
  return { items: task !== undefined && matches(task, filter) ? [task] : [] };
}

/**
 * The indexes that leave the fewest tasks to look at. Of a caller who sees some groups only, they are those of the
 * groups: a cursor names the last task that was looked at, and must not name a task of another group.
 */
function prefixesOf({ node, group, groups, status, type }: TaskFilter): readonly string[] {
  if (groups !== undefined) {
    const wanted = group === undefined ? groups : groups.filter((one) => one === group);
    return [...new Set(wanted)].filter(isId).map((one) => keys.tasksOfGroup(one));
  }
  if (node !== undefined) return [keys.tasksOfNode(checkId("node", node))];
  if (group !== undefined) return [keys.tasksOfGroup(checkId("group", group))];
  if (status !== undefined) return [keys.tasksOfStatus(checkStatus(status))];
  return [type === undefined ? keys.tasks : keys.tasksOfType(checkId("type", type))];
}

function checkStatus(status: string): TaskStatus {
  const found = TASK_STATUSES.find((one) => one === status.toUpperCase());
  if (found === undefined) {
    throw new InvalidArgumentError("status", status, `one of ${TASK_STATUSES.join(", ")}`);
  }
  return found;
}

function matches(task: Task, filter: TaskFilter): boolean {
  const { status, node, group, name, type, groups } = filter;
  return (
    (status === undefined || task.status === checkStatus(status)) &&
    (node === undefined || task.nodeId === node) &&
    (group === undefined || task.groupId === group) &&
    (name === undefined || task.taskName === name) &&
    (type === undefined || task.type === type) &&
    (groups === undefined || groups.includes(task.groupId))
  );
}
