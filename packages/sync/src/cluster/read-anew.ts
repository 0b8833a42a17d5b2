/** Reads keys of a master as the commands that write them, all at one offset of its stream. */
import { ConnectionLostError } from "@ropeway/core";
import { CommandRefusedError } from "../errors.ts";
import { ErrorReply, type Reply } from "../resp/reply-reader.ts";
import { RespWriter } from "../resp/writer.ts";
import type { Connection } from "../wire/connection.ts";

/** Keys as they were at the offset: RESTORE, or DEL if there is no such key. */
export interface ReadAnew {
  readonly offset: number;
  readonly writes: readonly (readonly Buffer[])[];
}

/** Throws ConnectionLostError if the master does not have the keys, and CommandRefusedError if they may not be read. */
export async function readAnew(
  connection: Connection,
  keys: readonly Buffer[],
  db?: number,
): Promise<ReadAnew> {
  const writer = new RespWriter();
  if (db !== undefined) writer.command(["SELECT", db]);
  for (const words of [["MULTI"], ["TIME"], ["INFO", "replication"]]) writer.command(words);
  for (const key of keys) {
    writer.command(["DUMP", key]);
    writer.command(["PTTL", key]);
  }
  writer.command(["EXEC"]);
  const before = db === undefined ? 0 : 1;
  const replies = await connection.exchange(writer.take(), before + 2 * keys.length + 4);
  const executed = replies.at(-1);
  if (!Array.isArray(executed)) throw refusalOf(replies);
  const [time, info, ...values] = executed as Reply[];
  const [seconds, micros] = time as readonly Reply[];
  const now = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  const writes = keys.map((key, index) => {
    const ttl = Number(values[2 * index + 1]);
    return writeOf(key, values[2 * index], ttl < 0 ? 0 : now + ttl);
  });
  return { offset: offsetOf(info), writes };
}

/** The replication offset of a master, from its INFO. */
export function offsetOf(info: Reply | undefined): number {
  const offset = /^master_repl_offset:(\d+)/m.exec(String(info))?.[1];
  if (offset === undefined) throw new ConnectionLostError("a master of the source", info);
  return Number(offset);
}

function writeOf(key: Buffer, dump: Reply | undefined, expiresAtMs: number): Buffer[] {
  if (!Buffer.isBuffer(dump)) return [Buffer.from("DEL"), key];
  const options = [Buffer.from("REPLACE"), Buffer.from("ABSTTL")];
  return [Buffer.from("RESTORE"), key, Buffer.from(String(expiresAtMs)), dump, ...options];
}

/** Why keys could not be read: their slot has moved, or the user has no permission. */
function refusalOf(replies: readonly Reply[]): Error {
  const refused = replies.find((reply) => reply instanceof ErrorReply);
  const reply = refused instanceof ErrorReply ? refused.message : "the transaction was discarded";
  if (/^(MOVED|ASK|TRYAGAIN|CLUSTERDOWN|LOADING|EXECABORT)\b/.test(reply)) {
    return new ConnectionLostError("a master of the source", new Error(reply));
  }
  return new CommandRefusedError("DUMP", `keys must be read again: ${reply}`);
}
