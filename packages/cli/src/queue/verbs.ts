/** What `ropeway queue ...` does. Each verb opens the queue's Redis, does one thing, and closes it. */
import { text as readAll } from "node:stream/consumers";
import { show } from "@ropeway/core/internal";
import {
  type DeadLetter,
  type Endpoint,
  encodeService,
  Inspector,
  keyOf,
  MergeQueue,
  type Page,
  readTarget,
  type Target,
} from "@ropeway/merge";
import { isSingle, newItemId, pushKeyOf } from "@ropeway/merge/internal";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { wholeNumber } from "../whole-number.ts";

type Verb = (context: Context) => Promise<void>;

interface Opened {
  readonly queue: MergeQueue;
  readonly inspector: Inspector;
}

/** The queue of the settings' Redis and prefix, for the length of some work. */
async function withQueue(context: Context, work: (opened: Opened) => Promise<void>): Promise<void> {
  await using redis = await openRedis(await findRedis(context));
  const queue = new MergeQueue(redis, { prefix: `${context.settings().values.prefix}:{merge}` });
  await work({ queue, inspector: new Inspector(queue) });
}

async function push(context: Context): Promise<void> {
  const { options, output } = context;
  const target = targetOf(context);
  const body = context.arguments[2] ?? (await readAll(context.stdin));
  if (!isSingle(target.mergeKey)) checkJson(body);
  await withQueue(context, async ({ queue }) => {
    const id = newItemId();
    const idempotencyKey = options.idempotencyKey as string | undefined;
    const pushed = await queue.push(pushKeyOf(target, id, idempotencyKey), body, {
      id,
      ontime: await timeOf(String(options.ontime), queue),
      overwrite: options.update as "once" | "always",
      idempotencyKey,
    });
    output.result({ ...pushed, key: target.mergeKey }, ({ ontime, items }) => {
      output.line(`${pushed.id}: item ${items} of its batch, fires ${when(ontime)}`);
    });
  });
}

async function list(context: Context): Promise<void> {
  const { options, output } = context;
  const limit = limitOf(options);
  await withQueue(context, async ({ inspector }) => {
    const search = options.search as string | undefined;
    const entries = [];
    let cursor: string | undefined = "0";
    while (cursor !== undefined && entries.length < limit) {
      const page = await inspector.list({ cursor, limit: limit - entries.length, search });
      entries.push(...page.entries);
      cursor = page.cursor;
    }
    const { paused } = await inspector.stats();
    if (paused) output.note("paused: nothing fires before `ropeway queue resume`");
    output.result(entries.slice(0, limit), (keys) => {
      output.table(
        ["FIRES", "ITEMS", "STATE", "ATTEMPTS", "KEY", "ERROR"],
        keys.map(({ ontime, items, state, paused, attempts, key, error = "" }) => {
          const shown = paused ? "paused" : state;
          return [when(ontime), String(items), shown, String(attempts), key, error];
        }),
      );
    });
  });
}

async function peek(context: Context): Promise<void> {
  const { output } = context;
  const target = targetOf(context);
  await withQueue(context, async ({ inspector }) => {
    const keys = await keysOf(inspector, target);
    const peeked = await Promise.all(keys.map((key) => inspector.peek(key)));
    const found = peeked
      .filter(({ items }) => items > 0)
      .map(({ oldest, data: _, ...key }) => ({
        ...key,
        oldest: oldest.map((item) => ({ ...item, body: item.body.toString("utf8") })),
      }));
    output.result(found, (batches) => {
      if (batches.length === 0) output.line("nothing is queued");
      for (const { ontime, items, state, paused, oldest } of batches) {
        output.line(`${items} item(s), ${paused ? "paused" : state}, fires ${when(ontime)}`);
        for (const { id, body } of oldest) output.line(`  ${id}  ${body}`);
      }
    });
  });
}

async function sendNow(context: Context): Promise<void> {
  const { output } = context;
  const target = targetOf(context);
  await withQueue(context, async ({ inspector }) => {
    const keys = await keysOf(inspector, target);
    const counts = await Promise.all(keys.map((key) => inspector.sendNow(key)));
    const items = counts.reduce((sum, count) => sum + count, 0);
    output.result({ items }, () => output.line(`${items} item(s) fire now`));
  });
}

async function remove(context: Context): Promise<void> {
  const { output } = context;
  const target = targetOf(context);
  await withQueue(context, async ({ inspector }) => {
    const keys = await keysOf(inspector, target);
    const removed = await Promise.all(keys.map((key) => inspector.remove(key)));
    const deleted = removed.reduce((sum, each) => sum + each.deleted, 0);
    const sending = removed.reduce((sum, each) => sum + each.sending, 0);
    output.result({ deleted, sending }, () => {
      const late = sending === 0 ? "" : `, ${sending} of them on their way already`;
      output.line(`${deleted} item(s) deleted${late}`);
    });
  });
}

async function letters(context: Context): Promise<void> {
  const { options, output } = context;
  await withQueue(context, async ({ inspector }) => {
    const { entries } = await inspector.letters({ limit: limitOf(options) });
    output.result(entries, (dead) => {
      output.table(
        ["ID", "DIED", "ITEMS", "ATTEMPTS", "KEY", "REASON"],
        dead.map(({ id, at, items, attempts, key, reason }) => {
          return [id, when(at), String(items), String(attempts), key, reason];
        }),
      );
    });
  });
}

async function replay(context: Context): Promise<void> {
  const { options, output, arguments: given } = context;
  if (given.length === 0 && options.all !== true) {
    throw new UsageError("name the dead letters to replay, or say --all");
  }
  await withQueue(context, async ({ inspector }) => {
    let items = 0;
    let replayed = 0;
    const bring = async (id: string) => {
      items += await inspector.replay(id);
      replayed += 1;
    };
    for (const id of options.all === true ? await letterIds(inspector) : given) await bring(id);
    output.result({ letters: replayed, items }, () =>
      output.line(`${replayed} dead letter(s) with ${items} item(s) fire now`),
    );
  });
}

/** All of them as of now: a letter whose replay fails at once dies anew, and must not be met again. */
async function letterIds(inspector: Inspector): Promise<string[]> {
  const ids: string[] = [];
  let cursor: string | undefined = "0";
  while (cursor !== undefined) {
    const page: Page<DeadLetter> = await inspector.letters({ cursor });
    ids.push(...page.entries.map(({ id }) => id));
    cursor = page.cursor;
  }
  return ids;
}

async function endpoints(context: Context): Promise<void> {
  const { options, output } = context;
  await withQueue(context, async ({ inspector }) => {
    if (typeof options.enable === "string") await inspector.enable(urlOf(options.enable));
    if (typeof options.disable === "string") {
      await inspector.disable(urlOf(options.disable), "disabled by an operator");
    }
    if (typeof options.pause === "string") await inspector.pauseEndpoint(urlOf(options.pause));
    const { entries } = await inspector.endpoints({ limit: limitOf(options) });
    output.result(entries, (all) => {
      output.table(
        ["STATE", "DELIVERED", "FAILED", "LAST", "URL"],
        all.map((endpoint) => {
          const { delivered, failed, status, url } = endpoint;
          return [stateOf(endpoint), String(delivered), String(failed), status, url];
        }),
      );
    });
  });
}

async function pause(context: Context): Promise<void> {
  const { output } = context;
  await withQueue(context, async ({ inspector }) => {
    if (context.arguments[0] === undefined) {
      await inspector.pause();
      output.result({ paused: true }, () => output.line("nothing fires any more"));
      return;
    }
    let items = 0;
    const keys = await keysOf(inspector, targetOf(context));
    for (const key of keys) {
      await inspector.pause(key);
      items += (await inspector.peek(key, 0)).items;
    }
    output.result({ paused: true, keys: keys.length, items }, () =>
      output.line(`${items} item(s) of ${keys.length} key(s) wait until resumed`),
    );
  });
}

async function resume(context: Context): Promise<void> {
  const { output } = context;
  await withQueue(context, async ({ inspector }) => {
    if (context.arguments[0] === undefined) {
      await inspector.resume();
      output.result({ paused: false }, () => output.line("firing again"));
      return;
    }
    let resumed = 0;
    for (const key of await keysOf(inspector, targetOf(context))) {
      if (await inspector.resume(key)) resumed += 1;
    }
    output.result({ paused: false, keys: resumed }, () =>
      output.line(resumed === 0 ? "it was not paused" : `${resumed} key(s) fire again`),
    );
  });
}

/** The verbs by their names on the command line. */
export const verbs: Readonly<
  Record<
    | "push"
    | "list"
    | "peek"
    | "send-now"
    | "delete"
    | "letters"
    | "replay"
    | "endpoints"
    | "pause"
    | "resume",
    Verb
  >
> = {
  push,
  list,
  peek,
  "send-now": sendNow,
  delete: remove,
  letters,
  replay,
  endpoints,
  pause,
  resume,
};

function targetOf({ arguments: [mergeKey = "", url = ""], options }: Context): Target {
  if (!URL.canParse(url)) throw new UsageError(`${JSON.stringify(url)} is not a URL`);
  return readTarget(mergeKey, String(options.method ?? "POST"), encodeService(url));
}

async function keysOf(inspector: Inspector, target: Target): Promise<string[]> {
  return isSingle(target.mergeKey) ? inspector.keysOf(target) : [keyOf(target, "")];
}

function urlOf(text: string): string {
  return readTarget("-", "POST", encodeService(text)).url;
}

function checkJson(body: string): void {
  try {
    JSON.parse(body);
  } catch (error) {
    throw new UsageError(`the body is not JSON: ${(error as Error).message}`);
  }
}

function limitOf(options: Context["options"]): number {
  return wholeNumber(options, "limit", 1) ?? 50;
}

const UNITS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

/** Unix seconds, or a time from now by the clock of Redis. */
async function timeOf(text: string, { redis, keys }: MergeQueue): Promise<number> {
  const relative = /^\+(\d+(?:\.\d+)?)([smhd])$/.exec(text);
  if (relative !== null) {
    const [now] = await redis.send<readonly string[]>(["TIME"], { key: keys.timer });
    return Number(now) + Number(relative[1]) * (UNITS[relative[2] ?? "s"] ?? 1);
  }
  const seconds = Number(text);
  if (text.trim() === "" || Number.isNaN(seconds)) {
    throw new UsageError(
      `--ontime is ${show(text)}, but must be unix seconds, or +30s, +5m, +2h, +1d`,
    );
  }
  return seconds;
}

function when(seconds: number | undefined): string {
  if (seconds === undefined) return "-";
  return new Date(seconds * 1_000).toISOString();
}

function stateOf({ disabled, paused, breaker, heldUntil }: Endpoint): string {
  if (disabled !== undefined) return `disabled: ${disabled}`;
  if (paused) return "paused";
  if (breaker !== "closed") return `breaker ${breaker}`;
  return heldUntil === undefined ? "fine" : `waits until ${when(heldUntil / 1_000)}`;
}
