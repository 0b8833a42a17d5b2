/** What `ropeway task ...` does. */
import type { Json } from "@ropeway/cluster";
import { taskView } from "@ropeway/portal/internal";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { addressesOf, contentOf } from "../secret-address.ts";
import { stateCell } from "../terminal/colour.ts";
import { labelOf } from "../terminal/label.ts";
import { wholeNumber } from "../whole-number.ts";
import { openCluster } from "./open-cluster.ts";
import { events } from "./task-events.ts";
import { keysOf, offset } from "./task-record-verbs.ts";

type Verb = (context: Context) => Promise<void>;
type View = ReturnType<typeof taskView>;

/** The configuration that the options describe; undefined if none of them was given. */
async function configOf(context: Context, type: string): Promise<Record<string, Json> | undefined> {
  const { options } = context;
  const { mode } = options;
  if (options.options === "-" && (options.from === "-" || options.to === "-")) {
    throw new UsageError("--options and an address cannot both be read from standard input");
  }
  const more = await contentOf(context, "options");
  const given = more === undefined ? {} : parseConfig(more);
  const ends = await addressesOf(context, ["from", "to"]);
  const fields = Object.entries({ ...ends, mode }).filter(([, value]) => value !== undefined);
  const config = { ...given, ...(Object.fromEntries(fields) as Record<string, string>) };
  if (more === undefined && fields.length === 0) return undefined;
  for (const end of ["from", "to"]) {
    if (type === "sync" && !Object.hasOwn(config, end)) {
      throw new UsageError(`--${end} is missing: a sync task needs --from and --to`);
    }
  }
  return config;
}

async function create(context: Context): Promise<void> {
  const { options, output } = context;
  const { name, group, type = "sync" } = options;
  const config = (await configOf(context, String(type))) ?? {};
  if (type === "sync" && Object.keys(config).length === 0) {
    throw new UsageError("--from is missing: a sync task needs --from and --to");
  }
  await using opened = await openCluster(context);
  const { task } = await opened.audited(
    {
      action: "task create",
      subject: `task ${name}`,
      fullSubject: (made) => `task ${made.task.taskId}`,
    },
    () =>
      opened.cluster.tasks.create({
        name: String(name),
        type: String(type),
        config,
        local: true, // a user with access to the store may do everything
        group: group === undefined ? undefined : String(group),
        immortal: options.immortal === true,
        start: options.start === true,
      }),
  );
  const view = taskView(task);
  output.result(view, () => output.line(`${view.id} created: ${view.status}${because(view)}`));
}

async function list(context: Context): Promise<void> {
  const { options, output } = context;
  await using opened = await openCluster(context);
  const word = (name: string) => (options[name] === undefined ? undefined : String(options[name]));
  const page = await opened.cluster.tasks.list({
    status: word("status"),
    node: word("node"),
    group: word("group"),
    name: word("name"),
    type: word("type"),
    cursor: word("cursor"),
    limit: wholeNumber(options, "limit", 1) ?? 50,
  });
  output.list(
    { items: page.items.map(taskView), cursor: page.cursor },
    {
      columns: {
        ID: ({ id }) => id,
        NAME: ({ name }) => name,
        STATUS: ({ status }) => stateCell(status),
        NODE: ({ node }) => node ?? "-",
        GROUP: ({ group }) => group,
        TYPE: ({ type }) => type,
        UPDATED: ({ updatedAt }) => updatedAt,
      },
      empty: "no tasks: create one with `ropeway task create`",
    },
  );
}

async function show(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const view = taskView(await opened.cluster.tasks.get(idOf(context)));
  const facts = Object.entries(view).map(([name, value]) => [
    labelOf(name),
    typeof value === "object" && value !== null ? JSON.stringify(value) : String(value ?? "-"),
  ]);
  context.output.details(view, Object.fromEntries(facts));
}

function changing(
  verb: string,
  change: (opened: Opened, id: string, context: Context) => Promise<View>,
): Verb {
  return async (context) => {
    const { output } = context;
    await using opened = await openCluster(context);
    const id = idOf(context);
    const [, node] = context.arguments; // of move
    const subject = node === undefined ? `task ${id}` : `task ${id} node ${node}`;
    const view = await opened.audited({ action: `task ${verb} ${id}`, subject }, () =>
      change(opened, id, context),
    );
    output.result(view, () => output.line(`${view.id}: ${view.status}${because(view)}`));
  };
}

const start = changing("start", async ({ cluster }, id, { options }) =>
  taskView(await cluster.tasks.start(id, options.afresh === true ? { afresh: true } : {})),
);

const stop = changing("stop", async ({ cluster }, id, { options }) => {
  const asked = await cluster.tasks.stop(id);
  if (options.wait === false || asked.status === "STOP") return taskView(asked);
  const until = performance.now() + 30_000;
  for (;;) {
    const task = await cluster.tasks.get(id);
    if (task.status === "STOP" || performance.now() > until) return taskView(task);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
});

const move = changing("move", async ({ cluster }, id, context) =>
  taskView(await cluster.tasks.move(id, context.arguments[1] ?? "")),
);

async function edit(context: Context): Promise<void> {
  const { options, output } = context;
  const { name, group, immortal } = options;
  await using opened = await openCluster(context);
  const id = idOf(context);
  const { type } = await opened.cluster.tasks.get(id);
  const config = await configOf(context, type);
  const changes = {
    ...(name === undefined ? {} : { name: String(name) }),
    ...(group === undefined ? {} : { group: String(group) }),
    ...(typeof immortal === "boolean" ? { immortal } : {}),
    ...(config === undefined ? {} : { config, local: true }),
  };
  if (Object.keys(changes).length === 0) {
    throw new UsageError(
      "pass what to change, such as --name, --group, --immortal or --from and --to",
    );
  }
  const task = await opened.audited({ action: `task edit ${id}`, subject: `task ${id}` }, () =>
    opened.cluster.tasks.edit(id, changes),
  );
  const view = taskView(task);
  output.result(view, () => output.line(`Changed ${view.id} (${view.name}, ${view.status}).`));
}

async function remove(context: Context): Promise<void> {
  await using opened = await openCluster(context);
  const id = idOf(context);
  await opened.audited({ action: `task remove ${id}`, subject: `task ${id}` }, () =>
    opened.cluster.tasks.remove(id),
  );
  context.output.outcome("removed", { id }, `${id} removed`);
}

type Opened = Awaited<ReturnType<typeof openCluster>>;

function idOf(context: Context): string {
  return context.arguments[0] ?? "";
}

function because({ reason, node }: View): string {
  const where = node === null ? "" : ` on ${node}`;
  return reason === "" ? where : `${where}: ${reason}`;
}

function parseConfig(text: string): Record<string, Json> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      return value as Record<string, Json>;
    }
  } catch {
    // The error below says it.
  }
  throw new UsageError("--options must be a JSON object");
}

/** By the name of the verb on the command line. */
export const verbs: Readonly<
  Record<
    | "create"
    | "list"
    | "show"
    | "start"
    | "stop"
    | "edit"
    | "remove"
    | "move"
    | "events"
    | "offset"
    | "bigkeys"
    | "discarded",
    Verb
  >
> = {
  create,
  list,
  show,
  start,
  stop,
  edit,
  remove,
  move,
  events,
  offset,
  bigkeys: keysOf("bigKeys", "no keys: the task has written every key as a whole"),
  discarded: keysOf("discarded", "no keys: the task has written every key"),
};
