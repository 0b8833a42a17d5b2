/**
 * A task's life as server-sent events: the recorded events (`event`), the current task (`task`), then
 * the task at every change. Ids are revisions of the store, the same on every portal: a client that
 * reconnects with Last-Event-ID misses nothing, or gets a `reset` event if the history is gone, and then
 * the current state.
 */
import { type Cluster, CompactedError, type Entry, type Task } from "@ropeway/cluster";
import { keys, readAt, taskOf } from "@ropeway/cluster/internal";
import type { EventStream } from "../sse.ts";
import { taskView } from "./task-view.ts";

/** The task and the client that follows it. */
export interface FollowedTask {
  readonly taskId: string;
  /** The groups that the client may see; undefined for all. */
  readonly groups: readonly string[] | undefined;
}

/** Sends until the client goes, or the task is removed or leaves the groups that the client may see. */
export async function sendTaskEvents(
  cluster: Cluster,
  { taskId, groups }: FollowedTask,
  stream: EventStream,
): Promise<void> {
  const { store } = cluster;
  const visibleTask = (entry: Entry | undefined): Task | undefined => {
    const task = taskOf(entry);
    return task && (groups?.includes(task.groupId) ?? true) ? task : undefined;
  };
  const key = keys.task(taskId);
  let from = revisionOf(stream.lastEventId);
  if (from === undefined) {
    for (const event of await cluster.tasks.records.events(taskId)) {
      await stream.send({
        event: "event",
        data: { ...event, at: new Date(event.at).toISOString() },
      });
    }
  }
  for (;;) {
    if (from === undefined) {
      const { entry, revision } = await readAt(store, key);
      const task = visibleTask(entry);
      if (task === undefined) {
        await stream.send({ event: "removed", data: { id: taskId } });
        return;
      }
      await stream.send({ id: String(revision), event: "task", data: taskView(task) });
      from = revision;
    }
    try {
      const options = { prefix: key, from: from + 1, signal: stream.signal };
      for await (const events of store.watch(options)) {
        for (const { type, entry } of events) {
          from = entry.modRevision;
          const task = visibleTask(entry);
          if (type === "delete" || task === undefined) {
            await stream.send({ id: String(from), event: "removed", data: { id: taskId } });
            return;
          }
          await stream.send({ id: String(from), event: "task", data: taskView(task) });
        }
      }
      return;
    } catch (error) {
      if (!(error instanceof CompactedError)) throw error;
      await stream.send({ event: "reset", data: { reason: error.message } });
      from = undefined;
    }
  }
}

function revisionOf(lastEventId: string | undefined): number | undefined {
  return lastEventId !== undefined && /^\d{1,16}$/.test(lastEventId)
    ? Number(lastEventId)
    : undefined;
}
