/** `ropeway merge push|list|peek|send-now|delete|pause|resume|stats`: what is queued. */
import { show } from "@ropeway/core/internal";
import type { DeliveryRequest, Destination } from "@ropeway/merge";
import type { Context } from "../context.ts";
import { durationOf, parseDuration } from "../duration.ts";
import { UsageError } from "../errors.ts";
import { stateCell } from "../terminal/colour.ts";
import { readInput } from "../terminal/input.ts";
import { plural } from "../terminal/plural.ts";
import { wholeNumber } from "../whole-number.ts";
import { type OpenedMerge, pageOf, when, withMerge } from "./opened.ts";

export async function push(context: Context): Promise<void> {
  const { options, output } = context;
  await withMerge(context, async (opened) => {
    const to = destinationOf(context, opened);
    const body = await bodyOf(context, context.arguments[2] ?? "-");
    const pushed = await opened.at.push(to, body, {
      at: await timeOf(String(options.ontime), opened),
      update: options.update as "once" | "always",
      idempotencyKey: options.idempotencyKey as string | undefined,
      request: requestOf(options),
    });
    const at = when(pushed.at);
    const facts = { id: pushed.id, key: to.mergeKey, at, items: pushed.items };
    output.outcome("pushed", facts, `${pushed.id}: item ${pushed.items} of its batch, fires ${at}`);
  });
}

/** The body of an item. From standard input it is taken byte for byte. */
export async function bodyOf(context: Context, given: string): Promise<string | Buffer> {
  return given === "-" ? readInput(context, "the body") : given;
}

export async function list(context: Context): Promise<void> {
  const { options, output } = context;
  await withMerge(context, async ({ inspector }) => {
    const search = options.search as string | undefined;
    const { items, cursor } = await inspector.list({ ...pageOf(options), search });
    if ((await inspector.stats()).paused) {
      output.note("everything is paused: resume with `ropeway merge resume`");
    }
    const shown = items.map((item) => ({ ...item, at: when(item.at) }));
    output.list(
      { items: shown, cursor },
      {
        columns: {
          FIRES: ({ at }) => at,
          ITEMS: ({ items: count }) => count,
          STATE: ({ paused, state }) => stateCell(paused ? "paused" : state),
          ATTEMPTS: ({ attempts }) => attempts,
          KEY: ({ key }) => key,
          ERROR: ({ error = "" }) => error,
        },
        empty: "nothing is queued: push an item with `ropeway merge push KEY URL BODY`",
      },
    );
  });
}

export async function peek(context: Context): Promise<void> {
  const { options, output } = context;
  await withMerge(context, async (opened) => {
    const to = destinationOf(context, opened);
    const cursor = options.cursor as string | undefined;
    const page = await opened.at.peek(to, { cursor });
    const items = page.batches.map(({ oldest, ...batch }) => ({
      ...batch,
      at: when(batch.at),
      oldest: oldest.map(({ id, body, size }) => ({ id, size, body: body.toString("utf8") })),
    }));
    output.result({ items, cursor: page.cursor ?? null }, () => {
      if (items.length === 0) output.note("nothing is queued for this merge key and URL");
      for (const { at, items: count, state, paused, oldest } of items) {
        output.line(
          `${plural(count, "item")}, `,
          stateCell(paused ? "paused" : state),
          `, fires ${at}`,
        );
        for (const { id, body } of oldest) output.line(`  ${id}  ${body}`);
      }
      if (page.cursor !== undefined) output.note(`more: repeat with --cursor '${page.cursor}'`);
    });
  });
}

export async function sendNow(context: Context): Promise<void> {
  await withMerge(context, async (opened) => {
    const items = await opened.at.sendNow(destinationOf(context, opened));
    context.output.outcome("fired", { items }, `${plural(items, "item")} will be delivered now`);
  });
}

export async function remove(context: Context): Promise<void> {
  await withMerge(context, async (opened) => {
    const { deleted, sending } = await opened.at.remove(destinationOf(context, opened));
    const late = sending === 0 ? "" : `; ${sending} of them are being sent and cannot be stopped`;
    const sentence = `${plural(deleted, "item")} deleted${late}`;
    context.output.outcome("deleted", { deleted, sending }, sentence);
  });
}

export async function pause(context: Context): Promise<void> {
  const { output } = context;
  await withMerge(context, async (opened) => {
    if (context.arguments[0] === undefined) {
      await opened.inspector.pause();
      output.outcome("paused", {}, "everything is paused; pushes are still accepted");
      return;
    }
    const keys = await opened.at.pause(destinationOf(context, opened));
    output.outcome("paused", { keys }, `${plural(keys, "key")} paused; pushes are still accepted`);
  });
}

export async function resume(context: Context): Promise<void> {
  const { output } = context;
  await withMerge(context, async (opened) => {
    if (context.arguments[0] === undefined) {
      const wasPaused = await opened.inspector.resume();
      output.outcome("resumed", { wasPaused }, wasPaused ? "resumed" : "it was not paused");
      return;
    }
    const keys = await opened.at.resume(destinationOf(context, opened));
    const sentence = keys === 0 ? "it was not paused" : `${plural(keys, "key")} resumed`;
    output.outcome("resumed", { keys }, sentence);
  });
}

export async function stats(context: Context): Promise<void> {
  await withMerge(context, async ({ inspector }) => {
    const found = await inspector.stats();
    context.output.details(found, {
      keys: found.keys,
      due: found.due,
      "oldest due": `${Math.round(found.oldestDueMs)} ms`,
      "dead letters": found.deadLetters,
      endpoints: found.endpoints,
      paused: found.paused ? "everything" : plural(found.pausedKeys, "key"),
      broken: found.broken,
    });
  });
}

function destinationOf(context: Context, { at }: OpenedMerge): Destination {
  const [mergeKey = "", url = ""] = context.arguments;
  return at.destination({ mergeKey, method: String(context.options.method ?? "POST"), url });
}

/** How its batch is delivered, from the options. */
export function requestOf(options: Context["options"]): DeliveryRequest {
  const headers = (options.header as readonly string[] | undefined)?.map((line) => {
    const [, name = "", value = ""] = /^([^:]+):\s*(.*)$/.exec(line) ?? [];
    if (name === "") throw new UsageError(`--header is ${show(line)}, but must be "name: value"`);
    return [name, value];
  });
  return {
    attempts: wholeNumber(options, "attempts", 1),
    timeoutMs: durationOf(options, "timeoutMs", 1),
    callback: options.callback as string | undefined,
    failureCallback: options.failureCallback as string | undefined,
    headers: headers === undefined ? undefined : Object.fromEntries(headers),
  };
}

/** Unix seconds, or a time from now by the clock of Redis; ms since 1970. */
async function timeOf(text: string, { inspector }: OpenedMerge): Promise<number> {
  // With a unit: "+30" alone could be meant as seconds, as everything else here.
  const delay = /^\+.*[a-z]$/.test(text) ? parseDuration(text.slice(1)) : undefined;
  if (delay !== undefined) return (await inspector.now()) + delay;
  const seconds = Number(text);
  if (text.trim() === "" || text.startsWith("+") || Number.isNaN(seconds)) {
    throw new UsageError(
      `--ontime is ${show(text)}, but must be unix seconds, or +30s, +5m, +2h, +1d`,
    );
  }
  return seconds * 1_000;
}
