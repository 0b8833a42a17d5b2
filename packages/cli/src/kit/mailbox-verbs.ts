/** What `ropeway mailbox ...` does. */
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Page } from "@ropeway/core";
import { type DeadLetter, Mailbox } from "@ropeway/kit/mailbox";
import type { Context } from "../context.ts";
import { durationOf } from "../duration.ts";
import { UsageError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { isoTime } from "../terminal/time.ts";
import { wholeNumber } from "../whole-number.ts";
import { keyPrefix, pageOf } from "./key-prefix.ts";
import { messageOf, textOf } from "./message.ts";

export type MailboxVerb = "show" | "peek" | "letters" | "send" | "receive" | "clear";

/** The names of the library's options on the command line. */
const FLAGS = { max: "--max", waitMs: "--wait", ttlMs: "--ttl", sender: "--sender" };
/** The maximum, because the program that owns the mailbox decides which messages become dead letters. */
const ATTEMPTS = 1_000_000;

async function withMailbox(
  context: Context,
  work: (mailbox: Mailbox) => Promise<void>,
): Promise<void> {
  const [recipient = ""] = context.arguments;
  await using redis = await openRedis(await findRedis(context));
  const options = { prefix: keyPrefix(context), attempts: ATTEMPTS };
  await namingFlags(FLAGS, () => work(new Mailbox(redis, recipient, options)));
}

function show(context: Context): Promise<void> {
  return withMailbox(context, async (mailbox) => {
    const counts = await mailbox.counts();
    const { waiting, taken, dead } = counts;
    context.output.details(
      { recipient: mailbox.name, ...counts },
      { recipient: mailbox.name, waiting, received: taken, "dead letters": dead },
    );
    if (waiting + taken + dead === 0) context.output.note(emptyNote(mailbox.name));
  });
}

function peek(context: Context): Promise<void> {
  const limit = wholeNumber(context.options, "limit", 1);
  return withMailbox(context, async (mailbox) => {
    list(context, await mailbox.peek(pageOf(context, limit)), emptyNote(mailbox.name));
  });
}

function letters(context: Context): Promise<void> {
  const limit = wholeNumber(context.options, "limit", 1);
  return withMailbox(context, async (mailbox) => {
    const empty = `no dead letters: \`ropeway mailbox show ${mailbox.name}\` counts all messages`;
    list(context, await mailbox.deadLetters(pageOf(context, limit)), empty);
  });
}

async function send(context: Context): Promise<void> {
  const [recipient = "", text = ""] = context.arguments;
  const { options, output } = context;
  const ttlMs = durationOf(options, "ttl", 1);
  const sender = options.sender === undefined ? undefined : String(options.sender);
  const message = await messageOf(context, text);
  await withMailbox(context, async (mailbox) => {
    const id = await mailbox.send(message, { sender, ttlMs });
    output.outcome("sent", { recipient, id }, `message ${id} sent`);
  });
}

function receive(context: Context): Promise<void> {
  const { options, output, signal } = context;
  const max = wholeNumber(options, "max", 1) ?? 1;
  const waitMs = durationOf(options, "wait") ?? 0;
  return withMailbox(context, async (mailbox) => {
    const deliveries = await mailbox.receive({ max, waitMs, signal });
    const items = deliveries.map(({ id, message, sender, sentAt, attempt }) => {
      return { id, sender, sentAt, attempt, message };
    });
    list(context, { items }, emptyNote(mailbox.name));
    await output.data(""); // waits until there is room for more
    await nextTurn(); // then a write to a closed pipe has failed
    if (output.unread.aborted) {
      // Nobody has read them. The last one first, because each goes to the front.
      for (const delivery of [...deliveries].reverse()) await delivery.release();
      return;
    }
    const removed = await mailbox.acknowledge(deliveries);
    const returned = removed.filter((done) => !done).length;
    if (returned > 0) output.warn(`the lease of ${returned} ended; they can be received again`);
  });
}

function clear(context: Context): Promise<void> {
  if (context.options.yes !== true) {
    throw new UsageError("this removes all messages of the mailbox; repeat it with --yes");
  }
  return withMailbox(context, async (mailbox) => {
    await mailbox.clear();
    const recipient = mailbox.name;
    context.output.outcome("cleared", { recipient }, `mailbox ${recipient} cleared`);
  });
}

function list(context: Context, page: Page<DeadLetter<unknown>>, empty: string): void {
  context.output.list(page, {
    columns: {
      SENT: ({ sentAt }) => (sentAt === undefined ? "-" : isoTime(sentAt)),
      SENDER: ({ sender }) => sender ?? "-",
      MESSAGE: ({ message, raw }) => raw ?? textOf(message),
    },
    empty,
  });
}

/** A mailbox without messages has no keys, so it looks like a name that no program uses. */
function emptyNote(recipient: string): string {
  return `no messages for ${recipient}: send one with \`ropeway mailbox send\`, or pass --key-prefix if your program has a \`prefix\``;
}

export const verbs: Readonly<Record<MailboxVerb, (context: Context) => Promise<void>>> = {
  show,
  peek,
  letters,
  send,
  receive,
  clear,
};
