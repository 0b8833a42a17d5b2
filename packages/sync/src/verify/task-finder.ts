/**
 * Finds the task that copies the source to the target. A repair needs it: without its checkpoint, the task would apply
 * changes again that the repaired keys already have. The checkpoints in the target name all tasks and the history that
 * each of them follows, so a task is found even if no name was given.
 */
import { InvalidOptionError } from "@ropeway/core";
import { type Phase, parseCheckpoint } from "../checkpoint.ts";
import { historyIds } from "../history-id.ts";
import { checkpointKey, taskOfCheckpoint } from "../keys.ts";
import type { Reply } from "../resp/reply-reader.ts";
import type { Connection } from "../wire/connection.ts";
import type { End } from "./end.ts";

/** What the search knows of the task. */
export interface TaskQuestion {
  readonly source: End;
  readonly target: End;
  /** The name that was given. */
  readonly name: string | undefined;
  /** The default name of the task. */
  readonly byDefault: string;
  readonly repair: boolean;
}

/** A task of the target. */
export interface FoundTask {
  readonly name: string;
  /** undefined if there is no checkpoint of this task. */
  readonly phase: Phase | undefined;
}

const SCAN_COUNT = 1_000;

/** Throws InvalidOptionError if a repair needs a name, because it is not clear which task is meant. */
export async function findTask(question: TaskQuestion): Promise<FoundTask> {
  const { source, target, name, byDefault, repair } = question;
  const wanted = name ?? byDefault;
  const tasks = await tasksAt(target);
  const own = tasks.find((task) => task.name === wanted);
  const histories = await historiesOf(source);
  const meant = tasks.filter(
    ({ name: each, phase, replid }) =>
      phase !== "done" && (histories.has(replid) || (name === undefined && each === byDefault)),
  );
  const unnamed = { name: wanted, phase: own?.phase };
  if (name !== undefined && (own !== undefined || meant.length === 0)) return unnamed;
  if (name === undefined && meant.length <= 1) return meant[0] ?? unnamed;
  if (!repair) return unnamed;
  const names = meant
    .map((task) => task.name)
    .sort()
    .join(", ");
  throw new InvalidOptionError("name", name, `the task that copies this source, one of ${names}`);
}

/** The tasks that have a checkpoint in the target. */
async function tasksAt(target: End): Promise<(FoundTask & { readonly replid: string })[]> {
  const found = new Map<string, FoundTask & { readonly replid: string }>();
  for (const server of await target.servers()) {
    for await (const key of checkpointKeys(server)) {
      const name = taskOfCheckpoint(key);
      const checkpoint = parseCheckpoint(await server.call<Reply>("HGETALL", key));
      if (name === undefined || checkpoint === undefined) continue;
      found.set(name, { name, phase: checkpoint.phase, replid: checkpoint.replid });
    }
  }
  return [...found.values()];
}

async function* checkpointKeys(server: Connection): AsyncGenerator<Buffer, void> {
  let cursor = "0";
  const pattern = checkpointKey("*", 0);
  do {
    const [next, keys] = await server.call<readonly [Buffer, readonly Buffer[]]>(
      ...["SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT],
    );
    yield* keys;
    cursor = String(next);
  } while (cursor !== "0");
}

/** The histories that the source writes, or wrote before its last failover. */
async function historiesOf(source: End): Promise<Set<string>> {
  const found = new Set<string>();
  for (const server of await source.servers()) {
    for (const id of historyIds(await server.call("INFO", "replication"))) found.add(id);
  }
  return found;
}
