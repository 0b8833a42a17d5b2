/** What `ropeway lock ...` does. */
import { LockInspector, type LockView } from "@ropeway/kit/lock";
import type { Context } from "../context.ts";
import { NotFoundError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { wholeNumber } from "../whole-number.ts";
import { keyPrefix, pageOf } from "./key-prefix.ts";

export type LockVerb = "list" | "show" | "break";

async function withLocks(
  context: Context,
  work: (locks: LockInspector) => Promise<void>,
): Promise<void> {
  await using redis = await openRedis(await findRedis(context));
  await namingFlags({}, () => work(new LockInspector(redis, { prefix: keyPrefix(context) })));
}

function list(context: Context): Promise<void> {
  const limit = wholeNumber(context.options, "limit", 1);
  return withLocks(context, async (locks) => {
    context.output.list(await locks.list(pageOf(context, limit)), {
      columns: {
        NAME: ({ name }) => name,
        MODE: ({ mode }) => mode,
        OWNER: ({ mode, owner, readers }) => (mode === "read" ? `${readers} readers` : owner),
        ENDS: ({ leftMs }) => ends(leftMs),
        WAITING: ({ waiting }) => waiting,
        FENCE: ({ fence }) => fence ?? "",
      },
      empty: "no lock is held: pass --key-prefix if your program has a `prefix`",
    });
  });
}

function show(context: Context): Promise<void> {
  const [name = ""] = context.arguments;
  return withLocks(context, async (locks) => {
    const view = await locks.get(name);
    if (view === undefined) throw new NotFoundError("held lock", name);
    context.output.details<LockView>(view, {
      name: view.name,
      mode: view.mode,
      owner: view.owner || undefined,
      token: view.token,
      fence: view.fence,
      ends: ends(view.leftMs),
      readers: view.readers || undefined,
      waiting: view.waiting,
    });
  });
}

function breakLock(context: Context): Promise<void> {
  const [name = ""] = context.arguments;
  const token = context.options.token === undefined ? undefined : String(context.options.token);
  return withLocks(context, async (locks) => {
    if (!(await locks.break(name, token))) {
      throw new NotFoundError(token === undefined ? "held lock" : "token of lock", token ?? name);
    }
    context.output.outcome(
      "broken",
      { name },
      `lock ${name} was taken from its holder, which notices it at its next renewal`,
    );
  });
}

function ends(leftMs: number | null): string {
  return leftMs === null ? "never" : `in ${(leftMs / 1_000).toFixed(1)} s`;
}

export const verbs: Readonly<Record<LockVerb, (context: Context) => Promise<void>>> = {
  list,
  show,
  break: breakLock,
};
