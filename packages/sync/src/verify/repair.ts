/** Writes a key of the target as the source has it, if the stream of the task has not come further; see repair.lua. */
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

/** What is written. */
export interface RepairPlan {
  /** In database 0. */
  readonly connection: Connection;
  readonly abilities: Abilities;
  /** Says how far the stream is; undefined if there is no task. */
  readonly mark: string | undefined;
  /** The last offset of the source at which it had the value. */
  readonly until: number;
  readonly clustered: boolean;
  readonly db: number;
  readonly key: Buffer;
  readonly state: KeyState;
  /** Added to the expiry of hash fields; that of the key has it already. */
  readonly ttlShiftMs: number;
}

/** True: written; false: the target refused it; "raced": the stream has come further, so nothing was written. */
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
