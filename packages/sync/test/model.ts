// Values in a form that tests can compare: bytes as latin1 text, what has no order sorted.

import type { RdbEntry, RdbKeyAttributes } from "../src/rdb/entry.ts";
import type { RdbReaderOptions } from "../src/rdb/options.ts";
import { RdbReader } from "../src/rdb/reader.ts";
import type { Reply } from "../src/resp/reply-reader.ts";
import { decodeValue } from "../src/value/decode.ts";
import type { StreamId, ValuePart } from "../src/value/part.ts";
import type { PlainRedis } from "./plain-redis.ts";

export interface ModelKey {
  readonly expiresAtMs: number;
  readonly value: unknown;
}

const latin1 = (bytes: Buffer) => bytes.toString("latin1");
const idText = ({ ms, seq }: StreamId) => `${ms}-${seq}`;

/** A decoded value. */
export function modelOf(parts: Iterable<ValuePart>): unknown {
  const all = [...parts];
  const type = all[0]?.type;
  switch (type) {
    case "string":
      return latin1(
        Buffer.concat(all.map((part) => (part.type === "string" ? part.bytes : fail(part)))),
      );
    case "list":
      return all.flatMap((part) => (part.type === "list" ? part.elements.map(latin1) : fail(part)));
    case "set":
      return {
        set: all
          .flatMap((part) => (part.type === "set" ? part.members.map(latin1) : fail(part)))
          .sort(),
      };
    case "zset":
      return {
        zset: all
          .flatMap((part) =>
            part.type === "zset"
              ? part.members.map((m, i) => [latin1(m), Number(part.scores[i])] as const)
              : fail(part),
          )
          .sort(byFirst),
      };
    case "hash":
      return {
        hash: all
          .flatMap((part) =>
            part.type === "hash"
              ? part.fields.map(
                  (f, i) =>
                    [
                      latin1(f),
                      latin1(part.values[i] as Buffer),
                      part.expiresAtMs?.[i] ?? 0,
                    ] as const,
                )
              : fail(part),
          )
          .sort(byFirst),
      };
    case "stream":
      return streamModel(all);
    default:
      return all;
  }
}

function fail(part: ValuePart): never {
  throw new Error(`unexpected part ${part.type}`);
}

function byFirst(a: readonly [string, ...unknown[]], b: readonly [string, ...unknown[]]): number {
  return a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0;
}

function streamModel(parts: readonly ValuePart[]): unknown {
  const entries: unknown[] = [];
  const groups: {
    name: string;
    lastId: string;
    pending: unknown[];
    consumers: [string, string[]][];
  }[] = [];
  let info: unknown;
  for (const part of parts) {
    if (part.type !== "stream") fail(part);
    const group = groups.at(-1);
    if (part.piece === "entries") {
      for (const { id, fields } of part.entries) entries.push([idText(id), fields.map(latin1)]);
    } else if (part.piece === "info") {
      info = { length: part.length, lastId: idText(part.lastId) };
    } else if (part.piece === "group") {
      const { name, lastId } = part;
      groups.push({ name: latin1(name), lastId: idText(lastId), pending: [], consumers: [] });
    } else if (part.piece === "pending") {
      for (const { id, deliveries } of part.pending) group?.pending.push([idText(id), deliveries]);
    } else if (part.piece === "consumer") {
      group?.consumers.push([latin1(part.name), []]);
    } else if (part.piece === "owned") {
      group?.consumers.at(-1)?.[1].push(...part.ids.map(idText));
    }
  }
  return { entries, info, groups };
}

/** Reads an RDB in chunks of one size and returns its keys as `db:key`, and all other entries. */
export function readModel(
  rdb: Buffer,
  { chunk = rdb.length, ...options }: RdbReaderOptions & { chunk?: number } = {},
): { keys: Map<string, ModelKey>; entries: RdbEntry[]; whole: number; cut: number } {
  const reader = new RdbReader(options);
  const keys = new Map<string, ModelKey>();
  const entries: RdbEntry[] = [];
  let open: { key: RdbKeyAttributes; parts: ValuePart[] } | undefined;
  let whole = 0;
  let cut = 0;
  const put = (key: RdbKeyAttributes, value: unknown) =>
    keys.set(`${key.db}:${latin1(key.key)}`, { expiresAtMs: key.expiresAtMs, value });
  for (let at = 0; at < rdb.length; at += chunk) {
    reader.push(rdb.subarray(at, at + chunk));
    for (let entry = reader.next(); entry !== undefined; entry = reader.next()) {
      if (entry.kind === "key") {
        whole++;
        put(entry, modelOf(decodeValue(entry)));
      } else if (entry.kind === "begin") open = { key: entry, parts: [] };
      else if (entry.kind === "part") open?.parts.push(entry.part);
      else if (entry.kind === "end") {
        cut++;
        if (open !== undefined) put(open.key, modelOf(open.parts));
      } else entries.push(entry);
    }
  }
  reader.end();
  return { keys, entries, whole, cut };
}

/** What a server says about a key through plain commands. */
export async function askModel(redis: PlainRedis, key: Buffer): Promise<unknown> {
  const type = await redis.send("TYPE", key);
  const texts = (reply: Reply) => (reply as Buffer[]).map(latin1);
  switch (type) {
    case "string":
      return latin1((await redis.send("GET", key)) as Buffer);
    case "list":
      return texts(await redis.send("LRANGE", key, 0, -1));
    case "set":
      return { set: texts(await redis.send("SMEMBERS", key)).sort() };
    case "zset": {
      const flat = texts(await redis.send("ZRANGE", key, 0, -1, "WITHSCORES"));
      const score = (text: string) => Number(text.replace("inf", "Infinity"));
      return {
        zset: pairs(flat)
          .map(([m, s]) => [m, score(s)] as const)
          .sort(byFirst),
      };
    }
    case "hash":
      return { hash: await askHash(redis, key) };
    case "stream":
      return askStream(redis, key);
    default:
      return type;
  }
}

async function askHash(redis: PlainRedis, key: Buffer): Promise<unknown> {
  const flat = (await redis.send("HGETALL", key)) as Buffer[];
  const found: [string, string, number][] = [];
  for (let i = 0; i < flat.length; i += 2) {
    const expiry = await redis.reply("HPEXPIRETIME", key, "FIELDS", 1, flat[i] as Buffer);
    const at = Array.isArray(expiry) ? Math.max(0, Number(expiry[0])) : 0;
    found.push([latin1(flat[i] as Buffer), latin1(flat[i + 1] as Buffer), at]);
  }
  return found.sort(byFirst);
}

async function askStream(redis: PlainRedis, key: Buffer): Promise<unknown> {
  const entries = ((await redis.send("XRANGE", key, "-", "+")) as [Buffer, Buffer[]][]).map(
    ([id, fields]) => [latin1(id), fields.map(latin1)],
  );
  const info = mapOf(await redis.send("XINFO", "STREAM", key));
  const groups = [];
  for (const reply of (await redis.send("XINFO", "GROUPS", key)) as Reply[]) {
    const group = mapOf(reply);
    const name = group.name as Buffer;
    const pending = (await redis.send("XPENDING", key, name, "-", "+", 10_000)) as [
      Buffer,
      Buffer,
      number,
      number,
    ][];
    const consumers = ((await redis.send("XINFO", "CONSUMERS", key, name)) as Reply[]).map(mapOf);
    groups.push({
      name: latin1(name),
      lastId: latin1(group["last-delivered-id"] as Buffer),
      pending: pending.map(([id, , , deliveries]) => [latin1(id), deliveries]),
      consumers: consumers.map((consumer) => [
        latin1(consumer.name as Buffer),
        pending
          .filter(([, owner]) => owner.equals(consumer.name as Buffer))
          .map(([id]) => latin1(id)),
      ]),
    });
  }
  const lastId = latin1(info["last-generated-id"] as Buffer);
  return { entries, info: { length: info.length, lastId }, groups };
}

function mapOf(reply: Reply): Record<string, Reply> {
  const flat = reply as Reply[];
  return Object.fromEntries(
    flat.flatMap((name, i) => (i % 2 === 0 ? [[String(name), flat[i + 1] as Reply]] : [])),
  );
}

function pairs(flat: readonly string[]): [string, string][] {
  return flat.flatMap((first, i) =>
    i % 2 === 0 ? [[first, flat[i + 1] ?? ""] as [string, string]] : [],
  );
}
