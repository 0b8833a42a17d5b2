/**
 * A source for servers that refuse PSYNC: keys are found with SCAN and read with DUMP. The output is
 * an RDB, assembled from the payloads, so the rest is the same as for a snapshot.
 *
 *   REDIS00vv | ( SELECTDB db | ( [EXPIRETIME_MS at] type key raw )* )* | EOF | 8 zero bytes: no checksum
 *
 * SCAN returns each key that exists the whole time at least once. Keys that change meanwhile are copied as they
 * are when they are read; changes after that are not followed.
 */
import { createHash } from "node:crypto";
import { type Endpoint, parseEndpoint } from "@ropeway/core";
import { ClusterNodes } from "../cluster/nodes.ts";
import { FOOTER_BYTES } from "../dump/payload.ts";
import { isOwnKey } from "../keys.ts";
import type { Reply } from "../resp/reply-reader.ts";
import { type Argument, RespWriter } from "../resp/writer.ts";
import type { Connection } from "../wire/connection.ts";
import { Locator } from "../wire/locator.ts";
import { FileFeed } from "./file-feed.ts";
import type { Source } from "./source.ts";

/** How to read a server. */
export interface ScanOptions {
  readonly url: string;
  readonly name: string;
  readonly connectTimeoutMs: number;
  readonly signal: AbortSignal;
  /** See wire/off-limits.ts. */
  readonly keepOff?: readonly string[] | undefined;
}

const SELECTDB = 0xfe;
const EXPIRETIME_MS = 0xfc;
const EOF = 0xff;
const PAGE = 100;
const FIRST_VALKEY_VERSION = 80;

/** The source for the URL of a server, or of a cluster. */
export function scanSource(options: ScanOptions): Source {
  const endpoint = parseEndpoint(options.url, "from");
  const where = new Locator(endpoint, { ...options, master: false }).where;
  const identity = `scan-${createHash("sha1").update(where).digest("hex")}`;
  return {
    where,
    live: false,
    attach: () =>
      FileFeed.open(
        {
          where,
          identity: () => identity,
          bytes: undefined,
          chunks: () => chunksOf(endpoint, options),
        },
        undefined,
      ),
    fork: async () => undefined,
    connect: () => undefined,
    ownership: async () => () => true,
  };
}

async function* chunksOf(endpoint: Endpoint, options: ScanOptions): AsyncGenerator<Buffer, void> {
  let begun = false;
  for await (const connection of serversOf(endpoint, options)) {
    for await (const { db, entries, version } of pagesOf(connection)) {
      if (!begun) yield headerOf(version);
      begun = true;
      yield Buffer.concat([Buffer.from([SELECTDB]), lengthOf(db), ...entries]);
    }
  }
  if (!begun) yield headerOf(9);
  yield Buffer.concat([Buffer.from([EOF]), Buffer.alloc(8)]);
}

/** One connection at a time: the server, or each master of a cluster. */
async function* serversOf(
  endpoint: Endpoint,
  options: ScanOptions,
): AsyncGenerator<Connection, void> {
  const { connectTimeoutMs, name, signal, keepOff } = options;
  if (endpoint.topology !== "cluster") {
    const locator = new Locator(endpoint, { connectTimeoutMs, name, keepOff, master: false });
    await using connection = await locator.connect(signal);
    yield connection;
    return;
  }
  const nodes = new ClusterNodes({ endpoint, connectTimeoutMs, name, signal, keepOff });
  try {
    for (const { address } of await nodes.masters()) yield await nodes.at(address);
  } finally {
    nodes.close();
  }
}

interface ScannedPage {
  readonly db: number;
  readonly entries: readonly Buffer[];
  readonly version: number;
}

async function* pagesOf(connection: Connection): AsyncGenerator<ScannedPage, void> {
  const info = String(await connection.call("INFO", "keyspace"));
  for (const [, name] of info.matchAll(/^db(\d+):keys=/gm)) {
    const db = Number(name);
    if (db !== 0) await connection.call("SELECT", db);
    let cursor = "0";
    do {
      const [next, keys] = await connection.call<readonly [Buffer, readonly Buffer[]]>(
        "SCAN",
        cursor,
        "COUNT",
        PAGE,
      );
      cursor = String(next);
      const wanted = keys.filter((key) => !isOwnKey(key));
      const { entries, version } = await readEntries(connection, wanted);
      if (entries.length > 0) yield { db, entries, version };
    } while (cursor !== "0");
  }
}

async function readEntries(
  connection: Connection,
  keys: readonly Buffer[],
): Promise<{ entries: Buffer[]; version: number }> {
  const commands: Argument[][] = [
    ["TIME"],
    ...keys.flatMap((key) => [
      ["DUMP", key],
      ["PTTL", key],
    ]),
  ];
  const writer = new RespWriter();
  for (const command of commands) writer.command(command);
  const [time, ...replies] = await connection.exchange(writer.take(), commands.length);
  const [seconds, micros] = time as readonly Reply[];
  const now = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  const entries: Buffer[] = [];
  let version = 0;
  keys.forEach((key, at) => {
    const dump = replies[2 * at];
    if (!Buffer.isBuffer(dump)) return; // the key no longer exists
    version = dump.readUInt16LE(dump.length - FOOTER_BYTES);
    const ttl = Number(replies[2 * at + 1]);
    if (ttl >= 0) entries.push(expiryOf(now + ttl));
    const value = dump.subarray(1, dump.length - FOOTER_BYTES);
    entries.push(dump.subarray(0, 1), lengthOf(key.length), key, value);
  });
  return { entries, version };
}

function headerOf(version: number): Buffer {
  const valkey = version >= FIRST_VALKEY_VERSION;
  return Buffer.from(
    valkey
      ? `VALKEY${String(version).padStart(3, "0")}`
      : `REDIS${String(version).padStart(4, "0")}`,
  );
}

function expiryOf(atMs: number): Buffer {
  const bytes = Buffer.alloc(9);
  bytes[0] = EXPIRETIME_MS;
  bytes.writeBigInt64LE(BigInt(Math.round(atMs)), 1);
  return bytes;
}

/** A length in RDB encoding. */
function lengthOf(value: number): Buffer {
  if (value < 64) return Buffer.from([value]);
  if (value < 16_384) return Buffer.from([0x40 | (value >> 8), value & 0xff]);
  const bytes = Buffer.alloc(5);
  bytes[0] = 0x80;
  bytes.writeUInt32BE(value, 1);
  return bytes;
}
