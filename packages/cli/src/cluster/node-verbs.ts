/** What `ropeway nodes ...` and `ropeway alerts ...` do. */
import type { NodeView } from "@ropeway/cluster";
import type { Context } from "../context.ts";
import { cliActor } from "../os-user.ts";
import { stateCell } from "../terminal/colour.ts";
import { isoTime } from "../terminal/time.ts";
import { openCluster } from "./open-cluster.ts";

export type NodeVerb = "list" | "show" | "drain" | "undrain" | "remove";
type Verb = (context: Context) => Promise<void>;

async function list(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const { items } = await opened.cluster.nodes.list();
  context.output.list(
    {
      items: items.map(nodeView),
    },
    {
      columns: {
        ID: ({ id }) => id,
        TYPE: ({ type }) => type,
        STATE: (node) => stateCell(stateOf(node)),
        TASKS: ({ tasks }) => String(tasks),
        ADDRESS: ({ address }) => address || "-",
        REASON: ({ reason }) => reason,
      },
      empty: "no nodes: start one with `ropeway node --id node_a`",
    },
  );
}

async function show(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const [id = ""] = context.arguments;
  const found = await opened.cluster.nodes.get(id);
  const { cpu = 0, memory = 0 } = found.load ?? {};
  const node = { ...nodeView(found), cpu, memory, types: found.types ?? [] };
  const lastReportAt = found.lastreporttime > 0 ? isoTime(found.lastreporttime) : null;
  context.output.details(
    { ...node, lastReportAt },
    {
      id,
      type: node.type,
      state: stateCell(stateOf(node)),
      reason: node.reason || undefined,
      address: node.address || undefined,
      version: node.version || undefined,
      tasks: node.maxTasks === 0 ? node.tasks : `${node.tasks} of ${node.maxTasks}`,
      "task types": node.types.join(" ") || undefined,
      load: `${cpu.toFixed(2)} per core, ${Math.round(memory * 100)} % of memory`,
      "last report": lastReportAt ?? undefined,
    },
  );
}

function nodeView(node: NodeView) {
  return {
    id: node.nodeid,
    type: node.nodetype,
    online: node.online,
    draining: node.draining,
    address: node.heartbeaturl ?? "",
    tasks: node.load?.tasks ?? 0,
    maxTasks: node.load?.maxTasks ?? 0,
    version: node.version ?? "",
    reason: node.reason ?? "",
  };
}

function stateOf({ online, draining: drained }: { online: boolean; draining: boolean }): string {
  if (!online) return "offline";
  return drained ? "draining" : "online";
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

async function alertsShow(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const [id = ""] = context.arguments;
  const { cause: _, ...alert } = await opened.cluster.alerts.get(id);
  const time = (ms: number | null) => (ms === null ? undefined : isoTime(ms));
  context.output.details(alert, {
    id,
    kind: alert.kind,
    text: alert.text,
    subject: alert.subject || undefined,
    group: alert.group || undefined,
    raised: time(alert.raisedAt),
    "raised again": alert.count || undefined,
    acknowledged: time(alert.acknowledgedAt),
    by: alert.acknowledgedBy ?? undefined,
    resolved: time(alert.resolvedAt),
    sent: time(alert.sentAt),
  });
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
export const nodeVerbs: Readonly<Record<NodeVerb, Verb>> = {
  list,
  show,
  drain: draining("drain"),
  undrain: draining("undrain"),
  remove,
};
export const alertVerbs: Readonly<Record<"list" | "show" | "ack", Verb>> = {
  list: alertsList,
  show: alertsShow,
  ack: alertsAck,
};
