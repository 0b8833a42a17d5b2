/** Writes a key of the target as the source has it, unless the task's stream is already further; see repair.lua. */
import { defineScript } from "@ropeway/core";
import { dumpPayload, footerVersion } from "../dump/payload.ts";
import { ErrorReply } from "../resp/reply-reader.ts";
import { type Argument, RespWriter } from "../resp/writer.ts";
import type { Abilities } from "../sink/abilities.ts";
import { commandsOf, ValueCommands } from "../value/commands.ts";
import { decodeValue } from "../value/decode.ts";
import { needsShift, shiftedParts } from "../value/shift-fields.ts";
import type { Connection } from "../wire/connection.ts";
import type { KeyState } from "./key-reader.ts";

const REPAIR = defineScript(new URL("../../lua/repair.lua", import.meta.url));

/** The key to write, and its value. */
export interface RepairPlan {
  /** In database 0. */
  readonly connection: Connection;
  readonly abilities: Abilities;
  /** The key of the hash with the stream's offset; undefined if there is no task. */
  readonly mark: string | undefined;
  /** The last offset at which the source had the value. */
  readonly until: number;
  readonly clustered: boolean;
  readonly db: number;
  readonly key: Buffer;
  readonly state: KeyState;
  /** Added to the expiry of hash fields. The expiry of the key already includes it. */
  readonly ttlShiftMs: number;
}

/** True if written; false if the target refused; "raced" if the stream is already further, so nothing was written. */
export async function repair(plan: RepairPlan): Promise<boolean | "raced"> {
  const { connection, db, mark } = plan;
  if (mark !== undefined) return repairBehind(mark, plan);
  const commands: Argument[][] = [
    ["MULTI"],
    ["SELECT", db],
    ...writes(plan),
    ["SELECT", 0],
    ["EXEC"],
  ];
  const writer = new RespWriter();
  for (const command of commands) writer.command(command);
  const replies = await connection.exchange(writer.take(), commands.length);
  const executed = replies.at(-1);
  if (executed === null) return "raced";
  return Array.isArray(executed) && !executed.some((reply) => reply instanceof ErrorReply);
}

async function repairBehind(mark: string, plan: RepairPlan): Promise<boolean | "raced"> {
  const { connection, key, until, clustered, db } = plan;
  const argv: Argument[] = ["EVAL", REPAIR.source, 2, mark, key, until, clustered ? "" : db];
  for (const command of writes(plan)) argv.push(command.length, ...command);
  const writer = new RespWriter();
  writer.command(argv);
  const [reply] = await connection.exchange(writer.take(), 1);
  return reply === 0 ? "raced" : reply === 1;
}

function writes({ abilities, key, state, ttlShiftMs }: RepairPlan): Argument[][] {
  const { value, expiresAtMs } = state;
  if (value === undefined) return [["DEL", key]];
  const version = footerVersion(value.family, value.type, abilities.rdbVersion);
  if (version !== undefined && abilities.restoreAbsTtl && !needsShift(value, ttlShiftMs)) {
    const ttl = expiresAtMs < 0 ? 0 : expiresAtMs;
    return [["RESTORE", key, ttl, dumpPayload(value, version), "REPLACE", "ABSTTL"]];
  }
  return [
    ["DEL", key],
    ...commandsOf(new ValueCommands(key, abilities), shiftedParts(decodeValue(value), ttlShiftMs)),
    ...(expiresAtMs < 0 ? [] : [["PEXPIREAT", key, expiresAtMs]]),
  ];
}
