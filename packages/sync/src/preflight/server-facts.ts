/** The facts about a server, as far as it permits the commands that read them. */
import type { ServerInfo } from "@ropeway/core";
import { parseServerInfo } from "@ropeway/core/internal";
import { ErrorReply, type Reply } from "../resp/reply-reader.ts";
import { RespWriter } from "../resp/writer.ts";
import type { Connection } from "../wire/connection.ts";

/** Facts about one server. */
export interface ServerFacts {
  readonly where: string;
  readonly server: ServerInfo;
  /** The value of a field of INFO. */
  info(field: string): string | undefined;
  /** The value of a field of INFO, as a number. */
  number(field: string): number | undefined;
  /** The settings, if CONFIG GET is allowed. */
  readonly config: Readonly<Record<string, string>>;
  readonly modules: readonly string[];
  /** Keys per database. */
  readonly keys: ReadonlyMap<number, number>;
  /** Calls per command. */
  readonly calls: ReadonlyMap<string, number>;
  /** The difference between the server's clock and the local clock, in ms. */
  readonly clockMs: number;
  /** Bytes that the server writes to its replicas per second. */
  readonly streamBytesPerS: number;
}

const SETTINGS = [
  "maxmemory",
  "maxmemory-policy",
  "repl-backlog-size",
  "client-output-buffer-limit",
  "databases",
  "repl-timeout",
];
const RATE_MS = 500;

/** Reads the facts about a server. Facts that it refuses to return are left empty. */
export async function askServer(connection: Connection): Promise<ServerFacts> {
  const ask = async (...argv: string[]): Promise<Reply> => {
    const writer = new RespWriter();
    writer.command(argv);
    const [reply] = await connection.exchange(writer.take(), 1);
    return reply ?? null;
  };
  const text = (reply: Reply) =>
    reply instanceof ErrorReply || reply === null ? "" : String(reply);
  const sections = ["", "commandstats", "modules"];
  const info = (await Promise.all(sections.map((s) => (s === "" ? ask("INFO") : ask("INFO", s)))))
    .map(text)
    .join("\n");
  const config: Record<string, string> = {};
  for (const name of SETTINGS) {
    const reply = await ask("CONFIG", "GET", name);
    if (Array.isArray(reply) && reply.length === 2) config[name] = String(reply[1]);
  }
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, "m").exec(info)?.[1];
  const before = Date.now();
  const time = await ask("TIME");
  const half = (Date.now() - before) / 2;
  const now = Array.isArray(time)
    ? Number(time[0]) * 1_000 + Number(time[1]) / 1_000
    : before + half;
  return {
    where: connection.where,
    server: parseServerInfo(info),
    info: field,
    number: (name) => {
      const value = Number(field(name) ?? Number.NaN);
      return Number.isNaN(value) ? undefined : value;
    },
    config,
    modules: [...info.matchAll(/^module:name=([^,\r\n]+)/gm)].map(([, name = ""]) => name),
    keys: new Map(
      [...info.matchAll(/^db(\d+):keys=(\d+)/gm)].map(([, db, keys]) => [Number(db), Number(keys)]),
    ),
    calls: new Map(
      [...info.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)].map(([, name = "", calls]) => [
        name.toLowerCase(),
        Number(calls),
      ]),
    ),
    clockMs: Math.round(now - before - half),
    streamBytesPerS: await streamRate(ask, text),
  };
}

async function streamRate(
  ask: (...argv: string[]) => Promise<Reply>,
  text: (reply: Reply) => string,
): Promise<number> {
  const offset = async () =>
    Number(/^master_repl_offset:(\d+)/m.exec(text(await ask("INFO", "replication")))?.[1] ?? 0);
  const started = performance.now();
  const before = await offset();
  await new Promise((resolve) => setTimeout(resolve, RATE_MS));
  const grown = (await offset()) - before;
  return Math.round((grown * 1_000) / (performance.now() - started));
}
