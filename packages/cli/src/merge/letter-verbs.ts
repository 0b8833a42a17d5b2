/** `ropeway merge letters|letter|replay|discard`: dead letters. */
import { show } from "@ropeway/core/internal";
import type { DeadLetters, LetterFilter } from "@ropeway/merge";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { plural } from "../terminal/plural.ts";
import { pageOf, when, withMerge } from "./opened.ts";

export async function letters(context: Context): Promise<void> {
  const { options, output } = context;
  await withMerge(context, async (opened) => {
    const page = await opened.letters.list({ ...pageOf(options), ...filterOf(options) });
    const items = page.items.map((letter) => ({ ...letter, at: when(letter.at) }));
    output.list(
      { items, cursor: page.cursor },
      {
        columns: {
          ID: ({ id }) => id,
          DIED: ({ at }) => at,
          ITEMS: ({ items: count }) => count,
          ATTEMPTS: ({ attempts }) => attempts,
          KEY: ({ key }) => key,
          REASON: ({ reason }) => reason,
        },
        empty: "no dead letters: `ropeway merge attempts` shows the last deliveries",
      },
    );
  });
}

export async function letter(context: Context): Promise<void> {
  const { options, output, arguments: given } = context;
  await withMerge(context, async (opened) => {
    const id = given[0] ?? "";
    const found = await opened.letters.get(id);
    const page = await opened.letters.items(id, pageOf(options));
    const items = page.items.map(({ id: item, size, body }) => {
      return { id: item, size, body: body.toString("utf8") };
    });
    const shown = { ...found, at: when(found.at) };
    output.details(
      { ...shown, oldest: items, cursor: page.cursor ?? null },
      {
        id,
        key: shown.key,
        died: shown.at,
        reason: shown.reason,
        attempts: shown.attempts,
        "webhook-id": shown.delivery === "" ? undefined : shown.delivery,
        items: shown.items,
        oldest: items.map((item) => `${item.id}  ${item.body}`).join("\n"),
      },
    );
    if (page.cursor !== undefined) output.note(`more: repeat with --cursor ${page.cursor}`);
  });
}

export async function replay(context: Context): Promise<void> {
  const { letters: count, items } = await act(context, "replay", "replayAll");
  const sentence = `${plural(count, "dead letter")} with ${plural(items, "item")} will be delivered again`;
  context.output.outcome("replayed", { letters: count, items }, sentence);
}

export async function discard(context: Context): Promise<void> {
  const { letters: count, items } = await act(context, "discard", "discardAll");
  const sentence = `${plural(count, "dead letter")} with ${plural(items, "item")} deleted`;
  context.output.outcome("discarded", { letters: count, items }, sentence);
}

/** Replays or discards the named letters, or all that match. */
async function act(
  context: Context,
  one: "replay" | "discard",
  all: "replayAll" | "discardAll",
): Promise<{ letters: number; items: number }> {
  const { options, arguments: ids } = context;
  const filter = filterOf(options);
  const isFiltered = Object.values(filter).some((value) => value !== undefined);
  if (ids.length === 0 && !isFiltered && options.all !== true) {
    throw new UsageError("name dead letters by id, filter them, or use --all");
  }
  const total = { letters: 0, items: 0 };
  await withMerge(context, async (opened) => {
    const found: DeadLetters = opened.letters;
    if (ids.length === 0) Object.assign(total, await found[all](filter));
    for (const id of ids) {
      total.items += await found[one](id);
      total.letters += 1;
    }
  });
  return total;
}

function filterOf(options: Context["options"]): LetterFilter {
  const { key, url, reason } = options as Readonly<Record<string, string | undefined>>;
  return { key, url, reason, since: timeOf(options, "since"), until: timeOf(options, "until") };
}

/** The time that an option names, ms since the epoch. */
function timeOf(options: Context["options"], name: "since" | "until"): number | undefined {
  const given = options[name];
  if (given === undefined) return undefined;
  const ms = Date.parse(String(given));
  if (!Number.isNaN(ms)) return ms;
  const allowed = "an ISO 8601 time such as 2026-01-31T12:00Z";
  throw new UsageError(`--${name} is ${show(given)}, but must be ${allowed}`);
}
