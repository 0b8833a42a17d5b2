/**
 * The handshake of a replica before the replication begins, one command at a time: the server refuses a
 * PSYNC that is pipelined after another command.
 *
 *   AUTH -> PING -> [INFO, SELECT, EXISTS] -> REPLCONF listening-port 0 -> REPLCONF capa eof capa psync2 -> REPLCONF version
 *        -> [REPLCONF rdb-filter-only ""] -> PSYNC
 *
 * With port 0, Sentinel can never connect to the task or promote it. The version tells Valkey
 * that RDB 80 is supported; Redis does not know the option, and its refusal is ignored.
 */
import type { Socket } from "node:net";
import { AuthFailedError } from "@ropeway/core";
import { PsyncRefusedError, SourceNotReadyError } from "../errors.ts";
import { encodeCommand } from "../wire/encode.ts";
import { refuseOffLimits } from "../wire/off-limits.ts";
import type { ByteReader } from "./byte-reader.ts";

/** The input of the handshake. */
export interface HandshakePlan {
  readonly where: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Continue after this byte of this history. @default a full synchronisation */
  readonly after?: { readonly replid: string; readonly offset: number } | undefined;
  /** Request a snapshot without keys. Servers before 7.0 send all keys anyway. */
  readonly withoutKeys?: boolean;
  /** A server that has one of these keys is refused, see wire/off-limits.ts. */
  readonly keepOff?: readonly string[] | undefined;
}

/** The server's reply to PSYNC. */
export type PsyncReply =
  | { readonly kind: "full"; readonly replid: string; readonly offset: number }
  | { readonly kind: "continue"; readonly replid: string };

/** The version reported to Valkey: the newest one whose RDB format can be read. */
const ANNOUNCED_VERSION = "9.0.0";

/** The lines of INFO keyspace: one for each database. */
const MOST_LINES = 20_000;

/** Performs the handshake up to the reply to PSYNC. */
export async function handshake(
  socket: Socket,
  reader: ByteReader,
  plan: HandshakePlan,
): Promise<PsyncReply> {
  const ask = async (...args: string[]): Promise<string> => {
    socket.write(encodeCommand(args));
    return reader.line();
  };
  const { where, username, password } = plan;
  if (password !== undefined) {
    const reply = await ask(
      "AUTH",
      ...(username === undefined ? [password] : [username, password]),
    );
    if (reply.startsWith("-") && !/no password is set|without any password/i.test(reply)) {
      throw new AuthFailedError(where, new Error(reply.slice(1)));
    }
  }
  const pong = await ask("PING");
  if (/^-(NOAUTH|ERR operation not permitted)/.test(pong)) {
    throw new AuthFailedError(where, new Error(pong.slice(1)));
  }
  const { keepOff = [] } = plan;
  await refuseOffLimits(where, keepOff, {
    async keyspace() {
      socket.write(Buffer.concat([encodeCommand(["INFO", "keyspace"]), encodeCommand(["PING"])]));
      const lines: string[] = [];
      for (let line = await reader.line(); line !== "+PONG"; line = await reader.line()) {
        if (lines.push(line) > MOST_LINES) throw new PsyncRefusedError(where, "INFO does not end");
      }
      return lines.join("\n");
    },
    async all(commands) {
      socket.write(Buffer.concat(commands.map((command) => encodeCommand(command))));
      const replies: string[] = [];
      while (replies.length < commands.length) replies.push(await reader.line());
      return replies;
    },
  });
  await ask("REPLCONF", "listening-port", "0");
  await ask("REPLCONF", "capa", "eof", "capa", "psync2");
  await ask("REPLCONF", "version", ANNOUNCED_VERSION);
  if (plan.withoutKeys === true) await ask("REPLCONF", "rdb-filter-only", "");
  const { replid = "?", offset } = plan.after ?? {};
  const next = offset === undefined ? "-1" : String(offset + 1);
  return parseReply(await ask("PSYNC", replid, next), plan);
}

function parseReply(reply: string, { where, after }: HandshakePlan): PsyncReply {
  const [word = "", replid, offset] = reply.split(" ");
  if (word === "+FULLRESYNC" && replid !== undefined && /^\d+$/.test(offset ?? "")) {
    return { kind: "full", replid, offset: Number(offset) };
  }
  if (word === "+CONTINUE" && after !== undefined) {
    return { kind: "continue", replid: replid ?? after.replid };
  }
  if (/^-(NOMASTERLINK|LOADING|MASTERDOWN|BUSY|TRYAGAIN)\b/.test(reply)) {
    throw new SourceNotReadyError(where, reply.slice(1));
  }
  if (/^-(NOAUTH|WRONGPASS)/.test(reply))
    throw new AuthFailedError(where, new Error(reply.slice(1)));
  throw new PsyncRefusedError(where, reply.replace(/^-/, ""));
}
