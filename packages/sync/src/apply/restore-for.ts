/**
 * RESTORE commands of a stream. Their payload carries the RDB version of the source, which an older target
 * refuses. So the footer gets another version, or, if the target does not know the type, the value is written
 * with commands.
 */
import { rewriteFor } from "../command/rewrite.ts";
import type { TargetServer } from "../command/target.ts";
import { dumpPayload, footerVersion, readDump } from "../dump/payload.ts";
import { NotExpressibleError } from "../errors.ts";
import type { Argument } from "../resp/writer.ts";
import { commandsOf, ValueCommands } from "../value/commands.ts";
import { decodeValue } from "../value/decode.ts";
import { needsShift, shiftedParts } from "../value/shift-fields.ts";

/** The equivalent commands for the target; undefined if there are none. `shiftMs` moves the expiry of hash fields. */
export function restoreFor(
  target: TargetServer,
  argv: readonly Buffer[],
  shiftMs = 0,
): readonly (readonly Argument[])[] | undefined {
  const [, key, ttl, payload, ...options] = argv;
  if (key === undefined || ttl === undefined || payload === undefined) return [argv];
  const value = readDump(payload);
  const restore = (bytes: Buffer) =>
    rewriteFor(target, [RESTORE, key, ttl, bytes, ...options], () => Date.now());
  const decoded = needsShift(value, shiftMs);
  if (!decoded && value.version <= target.rdbVersion) return restore(payload);
  const version = footerVersion(value.family, value.type, target.rdbVersion);
  if (!decoded && version !== undefined) return restore(dumpPayload(value, version));
  try {
    const words = options.map((option) => option.toString("latin1").toUpperCase());
    const given = Number(ttl);
    const expiry = words.includes("ABSTTL") || given === 0 ? given : Date.now() + given;
    return [
      ["DEL", key],
      ...commandsOf(new ValueCommands(key, target), shiftedParts(decodeValue(value), shiftMs)),
      ...(expiry > 0 ? [["PEXPIREAT", key, expiry]] : []),
    ];
  } catch (error) {
    if (error instanceof NotExpressibleError) return undefined;
    throw error;
  }
}

const RESTORE = Buffer.from("RESTORE");
