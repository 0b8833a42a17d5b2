/** What `ropeway files ...` does. */
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { Files, type FilesOptions, type Progress, saveTo } from "@ropeway/kit/files";
import type { Context } from "../context.ts";
import { durationOf } from "../duration.ts";
import { NotFoundError, UnreadableFileError } from "../errors.ts";
import { unreadable } from "../file-text.ts";
import { byteText } from "../rdb/byte-text.ts";
import { progressBar } from "../rdb/progress-bar.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { plural } from "../terminal/plural.ts";
import { wholeNumber } from "../whole-number.ts";
import { keyPrefix, pageOf } from "./key-prefix.ts";

export type FilesVerb = "send" | "receive" | "end" | "list";

/** The library's options and their flags on the command line. */
const FLAGS = {
  limitBytes: "--limit",
  leaseMs: "--lease",
  receivers: "--receivers",
  files: "--files",
};
const SHOW_EVERY_MS = 100;

async function send(context: Context): Promise<void> {
  const [channel = "", ...paths] = context.arguments;
  const { options, output, signal } = context;
  const limitBytes = wholeNumber(options, "limit", 1);
  const leaseMs = durationOf(options, "lease", 1);
  const how: FilesOptions = {
    prefix: keyPrefix(context),
    ...(limitBytes === undefined ? {} : { limitBytes }),
    ...(leaseMs === undefined ? {} : { leaseMs }),
  };
  const receivers = String(options.receivers)
    .split(",")
    .filter((name) => name !== "");
  const found = paths.map((path) => resolve(context.cwd, path));
  for (const path of found) requireFile(path);
  await using redis = await openRedis(await findRedis(context));
  await namingFlags(FLAGS, async () => {
    const files = new Files(redis, channel, how);
    const sent: object[] = [];
    for (const path of found) {
      const onProgress = bar(context, true);
      const published = await files.publish(path, {
        receivers,
        signal,
        onProgress,
      });
      output.progress("");
      sent.push(published);
      const { name, bytes, dropped } = published;
      const without =
        dropped === 0 ? "" : `, without ${plural(dropped, "receiver")} that stayed away too long`;
      output.note(`${name}: ${byteText(bytes)} sent${without}`);
    }
    if (options.end === true) await files.end();
    output.result({ items: sent }, () => {});
  });
}

async function receive(context: Context): Promise<void> {
  const [channel = "", receiver = "", folder = "."] = context.arguments;
  const { output, signal } = context;
  const most = wholeNumber(context.options, "files", 1);
  await using redis = await openRedis(await findRedis(context));
  await namingFlags(FLAGS, async () => {
    const save = saveTo(resolve(context.cwd, folder));
    const received = await new Files(redis, channel, { prefix: keyPrefix(context) }).receive(
      receiver,
      async (file) => {
        await save(file);
        output.progress("");
        output.note(`${file.name} received`);
      },
      { signal, onProgress: bar(context), ...(most === undefined ? {} : { files: most }) },
    );
    const { files, missed } = received;
    const lost = missed.length === 0 ? "" : `; missed: ${missed.join(", ")}`;
    output.result(received, () => output.line(`${plural(files, "file")} received${lost}`));
  });
}

async function list(context: Context): Promise<void> {
  const limit = wholeNumber(context.options, "limit", 1);
  await using redis = await openRedis(await findRedis(context));
  const how = { prefix: keyPrefix(context), ...pageOf(context, limit) };
  const page = await namingFlags(FLAGS, () => Files.transfers(redis, how));
  context.output.list(page, {
    columns: {
      CHANNEL: ({ channel }) => channel,
      FILE: ({ name }) => name,
      SENT: ({ sent, chunkBytes }) => byteText(sent * chunkBytes),
      SIZE: ({ size }) => (size === undefined ? "" : byteText(size)),
      RECEIVERS: ({ receivers }) =>
        receivers.map(({ receiver, chunks }) => `${receiver} ${chunks}`).join(", "),
      DROPPED: ({ dropped }) => dropped,
    },
    empty: "no transfers: send a file with `ropeway files send CHANNEL PATH --receivers NAME`",
  });
}

/** Throws UnreadableFileError unless the path leads to a file, before anything is sent. */
function requireFile(path: string): void {
  try {
    if (statSync(path).isDirectory()) throw new UnreadableFileError(path, "it is a directory");
  } catch (error) {
    throw unreadable(path, error);
  }
}

async function end(context: Context): Promise<void> {
  const [channel = ""] = context.arguments;
  await using redis = await openRedis(await findRedis(context));
  const files = new Files(redis, channel, { prefix: keyPrefix(context) });
  if (!(await files.end())) throw new NotFoundError("channel", channel);
  context.output.outcome("ended", { channel }, `channel ${channel} ended`);
}

/** A progress bar that is drawn a few times a second. `waits`: after all bytes, the receivers are waited for. */
function bar({ output }: Context, waits: boolean = false): (progress: Progress) => void {
  const startedAt = performance.now();
  let shownAt = 0;
  return ({ name, bytes, total }) => {
    const now = performance.now();
    if (now - shownAt < SHOW_EVERY_MS && bytes !== total) return;
    shownAt = now;
    if (waits && bytes === total) {
      // Instead of the bar: both do not fit on a line of 80 characters.
      output.progress(`waiting for the receivers  ${byteText(bytes)}  ${name}`);
      return;
    }
    const text = total === undefined ? byteText(bytes) : progressBar(bytes, total, now - startedAt);
    output.progress(`${name} ${text}`);
  };
}

export const verbs: Readonly<Record<FilesVerb, (context: Context) => Promise<void>>> = {
  send,
  receive,
  end,
  list,
};
