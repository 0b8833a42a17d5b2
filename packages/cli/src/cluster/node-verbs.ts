/** What `ropeway nodes ...` and `ropeway alerts ...` do. */
import type { Context } from "../context.ts";
import { cliActor } from "../os-user.ts";
import { stateCell } from "../terminal/colour.ts";
import { openCluster } from "./open-cluster.ts";

type Verb = (context: Context) => Promise<void>;

async function list(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const { items } = await opened.cluster.nodes.list();
  context.output.list(
    {
      items: items.map((node) => ({
        id: node.nodeid,
        type: node.nodetype,
        online: node.online,
        draining: node.draining,
        address: node.heartbeaturl ?? "",
        tasks: node.load?.tasks ?? 0,
        maxTasks: node.load?.maxTasks ?? 0,
        version: node.version ?? "",
        reason: node.reason ?? "",
      })),
    },
    {
      columns: {
        ID: ({ id }) => id,
        TYPE: ({ type }) => type,
        STATE: ({ online, draining }) =>
          stateCell(online ? (draining ? "draining" : "online") : "offline"),
        TASKS: ({ tasks }) => String(tasks),
        ADDRESS: ({ address }) => address || "-",
        REASON: ({ reason }) => reason,
      },
      empty: "no nodes: start one with `ropeway node --id node_a`",
    },
  );
}

function draining(verb: "drain" | "undrain"): Verb {
  return async (context) => {
    await using opened = await openCluster(context);
    const [id = ""] = context.arguments;
    const what = { action: `nodes ${verb} ${id}`, subject: `node ${id}` };
    const node = await opened.audited(what, () => opened.cluster.nodes[verb](id));
    const sentence = node.draining ? `${id} takes no new tasks` : `${id} takes tasks again`;
    context.output.outcome(`${verb}ed`, { id, draining: node.draining }, sentence);
  };
}

async function remove(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const [id = ""] = context.arguments;
  await opened.audited({ action: `nodes remove ${id}`, subject: `node ${id}` }, () =>
    opened.cluster.nodes.forget(id),
  );
  context.output.outcome("removed", { id }, `node ${id} removed`);
}

async function alertsList(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const { options, output } = context;
  const page = await opened.cluster.alerts.list({
    all: options.all === true,
    cursor: options.cursor === undefined ? undefined : String(options.cursor),
  });
  const items = page.items.map(({ cause: _, raisedAt, ...alert }) => ({
    ...alert,
    raisedAt: new Date(raisedAt).toISOString(),
  }));
  output.list(
    { items, cursor: page.cursor },
    {
      columns: {
        ID: ({ id }) => id,
        RAISED: ({ raisedAt }) => raisedAt,
        KIND: ({ kind }) => kind,
        ACK: ({ acknowledgedBy }) => acknowledgedBy ?? "-",
        TEXT: ({ text }) => text,
      },
      empty: "no open alerts: `ropeway alerts list --all` also lists resolved ones",
    },
  );
}

async function alertsAck(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const [id = ""] = context.arguments;
  const by = cliActor();
  const alert = await opened.audited({ action: `alerts ack ${id}`, subject: `alert ${id}` }, () =>
    opened.cluster.alerts.acknowledge(id, by),
  );
  context.output.outcome(
    "acknowledged",
    { id, by: alert.acknowledgedBy },
    `alert acknowledged: ${alert.text}`,
  );
}

/** By the name of the verb on the command line. */
export const nodeVerbs: Readonly<Record<"list" | "drain" | "undrain" | "remove", Verb>> = {
  list,
  drain: draining("drain"),
  undrain: draining("undrain"),
  remove,
};
export const alertVerbs: Readonly<Record<"list" | "ack", Verb>> = {
  list: alertsList,
  ack: alertsAck,
};
