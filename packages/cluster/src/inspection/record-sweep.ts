/**
 * Removes events, big keys and discarded keys of tasks that do not exist. A task goes in one transaction,
 * its lists may be too long for that and follow; a portal that dies in between leaves them. Ids are never
 * used again, and a list begins in the transaction that creates its task, so a list without a task can be removed.
 *
 * Each round checks a few tasks of each kind of list, and the next round continues there:
 *
 *   /tasks/event/task_1/...  /tasks/event/task_1/...  /tasks/event/task_2/...
 *   ^ one read names the task; the next read begins behind all of its entries
 */
import { isPart, keys } from "../keys.ts";
import { getMany } from "../record.ts";
import type { Store } from "../store/store.ts";
import { TaskRecords } from "../tasks/task-records.ts";

const LISTS = [keys.eventsOfAll, keys.bigKeysOfAll, keys.discardedOfAll] as const;
const TASKS_PER_ROUND = 20;

/** The sweep of one portal. */
export class RecordSweep {
  readonly #store: Store;
  readonly #records: TaskRecords;
  /** By kind of list: where the next round begins. */
  readonly #reached = new Map<string, string>();

  constructor(store: Store) {
    this.#store = store;
    this.#records = new TaskRecords(store);
  }

  /** One round. */
  async step(): Promise<void> {
    for (const prefix of LISTS) {
      const ids = await this.#next(prefix);
      if (ids.length === 0) continue;
      const tasks = await getMany(
        this.#store,
        ids.map((id) => keys.task(id)),
      );
      for (const [n, id] of ids.entries()) {
        if (tasks[n] === undefined) await this.#records.removeAll(id);
      }
    }
  }

  /** The next few tasks that have a list of this kind. */
  async #next(prefix: string): Promise<string[]> {
    const ids: string[] = [];
    for (let looked = 0; looked < TASKS_PER_ROUND; looked++) {
      const after = this.#reached.get(prefix);
      const { entries } = await this.#store.range(prefix, { after, limit: 1 });
      const [first] = entries;
      if (first === undefined) {
        this.#reached.delete(prefix);
        break;
      }
      const id = first.key.slice(prefix.length).split("/", 1)[0] ?? "";
      if (isPart(id)) ids.push(id);
      this.#reached.set(prefix, `${prefix}${id}0`); // "0" follows "/"
    }
    return ids;
  }
}
