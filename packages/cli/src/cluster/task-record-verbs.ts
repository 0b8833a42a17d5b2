/** What `ropeway task offset`, `bigkeys` and `discarded` show: what nodes have noted about a task. */
import type { KeyRecordKind } from "@ropeway/cluster";
import type { Context } from "../context.ts";
import { wholeNumber } from "../whole-number.ts";
import { openCluster } from "./open-cluster.ts";

/** The last offset that the task's node has stored. */
export async function offset(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const { tasks } = opened.cluster;
  const { taskId } = await tasks.get(context.arguments[0] ?? "");
  const { replId = "", replOffset = "-1", db = 0, epoch = 0, at = 0 } = await tasks.offset(taskId);
  const view = {
    replId: String(replId),
    replOffset: String(replOffset),
    db: Number(db),
    epoch: Number(epoch),
    at: new Date(Number(at)).toISOString(),
  };
  context.output.details(view, {
    "replication id": view.replId,
    offset: view.replOffset,
    database: view.db,
    epoch: view.epoch,
    stored: view.at,
  });
}

/** A verb that lists the recorded keys of one kind. */
export function keysOf(kind: KeyRecordKind, empty: string): (context: Context) => Promise<void> {
  return async (context) => {
    const { options } = context;
    await using opened = await openCluster(context);
    const { tasks } = opened.cluster;
    const { taskId } = await tasks.get(context.arguments[0] ?? "");
    const page = await tasks.records.page(kind, taskId, {
      limit: wholeNumber(options, "limit", 1) ?? 50,
      cursor: options.cursor === undefined ? undefined : String(options.cursor),
    });
    const items = page.items.map(({ id, key, command, command_type: type, at }) => {
      return { id, key, command, type, at: new Date(at).toISOString() };
    });
    context.output.list(
      { items, cursor: page.cursor },
      {
        columns: {
          AT: ({ at }) => at,
          KEY: ({ key }) => key,
          TYPE: ({ type }) => type,
          COMMAND: ({ command }) => command,
        },
        empty,
      },
    );
  };
}
