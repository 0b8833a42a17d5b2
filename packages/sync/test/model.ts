// Values in a form that tests can compare: bytes as latin1 text, what has no order sorted.

import type { RdbEntry, RdbKeyAttributes } from "../src/rdb/entry.ts";
import type { RdbReaderOptions } from "../src/rdb/options.ts";
import { RdbReader } from "../src/rdb/reader.ts";
import { decodeValue } from "../src/value/decode.ts";
import type { StreamId, ValuePart } from "../src/value/part.ts";
import { byFirst, latin1 } from "./ask-model.ts";

export interface ModelKey {
  readonly expiresAtMs: number;
  readonly value: unknown;
}

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
