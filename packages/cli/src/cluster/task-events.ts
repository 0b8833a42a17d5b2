/** What `ropeway task events` shows: what has happened to a task, and with --follow what happens next. */
import { CompactedError, type TaskEvent } from "@ropeway/cluster";
import { eventOf, keys } from "@ropeway/cluster/internal";
import type { Context } from "../context.ts";
import { openCluster } from "./open-cluster.ts";

type Opened = Awaited<ReturnType<typeof openCluster>>;

/** The longest status, so that the nodes stand below each other. */
const EVENT_WIDTH = "COMMANDRUNNING".length;

export async function events(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const { tasks } = opened.cluster;
  const { taskId } = await tasks.get(context.arguments[0] ?? "");
  if (context.options.follow === true) {
    await follow(context, opened, taskId);
    return;
  }
  const items = (await tasks.records.events(taskId)).map(viewOf);
  context.output.list(
    { items },
    {
      columns: {
        AT: ({ at }) => at,
        EVENT: ({ event }) => event,
        NODE: ({ nodeId }) => nodeId || "-",
        EPOCH: ({ epoch }) => String(epoch),
        DETAIL: ({ detail }) => detail,
      },
      empty: "no events yet: start the task with `ropeway task start ID`",
    },
  );
}

/** Past and new events have one form, a line each, so that a reader of the output needs one parser. */
async function follow(context: Context, { store }: Opened, taskId: string): Promise<void> {
  const { output, signal } = context;
  const print = (event: TaskEvent | undefined) => {
    if (event === undefined) return;
    const view = viewOf(event);
    output.result(view, () => {
      const { at, nodeId, detail } = view;
      const parts = [at, view.event.padEnd(EVENT_WIDTH), nodeId || "-", detail];
      output.line(parts.join("  ").trimEnd());
    });
  };
  const prefix = keys.events(taskId);
  const until = AbortSignal.any([signal, output.unread]);
  for (let printed = 0; !until.aborted; ) {
    const { entries, revision } = await store.range(prefix);
    const inOrder = [...entries].sort((a, b) => a.createRevision - b.createRevision);
    for (const entry of inOrder) if (entry.createRevision > printed) print(eventOf(entry));
    if ((await store.get(keys.task(taskId))) === undefined) return;
    printed = revision;
    try {
      for await (const batch of store.watch({ prefix, from: revision + 1, signal: until })) {
        for (const { type, entry } of batch) {
          if (type === "put") print(eventOf(entry));
          printed = entry.modRevision;
        }
        // Old events are deleted while a task lives, and all of them after the task itself.
        const deleted = batch.some(({ type }) => type === "delete");
        if (deleted && (await store.get(keys.task(taskId))) === undefined) return;
      }
    } catch (error) {
      // The history since then is gone: the events are read again, and those that are new are printed.
      if (!(error instanceof CompactedError)) throw error;
    }
  }
}

function viewOf(event: TaskEvent) {
  return { ...event, at: new Date(event.at).toISOString() };
}
