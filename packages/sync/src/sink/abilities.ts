/**
 * The abilities of a target, found by trying commands. Version strings are not reliable: forks, managed services and
 * `rename-command` differ from what the number suggests.
 *
 * The footer of a DUMP has the version of the RDB format, which determines the types that RESTORE accepts.
 */

import { parseServerInfo } from "@ropeway/core/internal";
import type { TargetServer } from "../command/target.ts";
import { TargetRefusedError } from "../errors.ts";
import { historyId } from "../history-id.ts";
import { INSTALLATION_QUERY, installationId } from "../installation-id.ts";
import { discardedKey } from "../keys.ts";
import { ErrorReply, type Reply } from "../resp/reply-reader.ts";
import { RespWriter } from "../resp/writer.ts";
import type { Connection } from "../wire/connection.ts";

/** The abilities of a target. */
export interface Abilities extends TargetServer {
  /** RESTORE accepts REPLACE (3.0). */
  readonly restoreReplace: boolean;
  /** RESTORE accepts ABSTTL, IDLETIME and FREQ (5.0). */
  readonly restoreAbsTtl: boolean;
  /** SET accepts PXAT (6.2). */
  readonly setPxAt: boolean;
  /** MSET; an ACL may forbid it. */
  readonly mset: boolean;
  /** UNLINK (4.0). */
  readonly unlink: boolean;
  /** PEXPIRETIME (7.0). */
  readonly pExpireTime: boolean;
  /** FUNCTION (7.0). */
  readonly functions: boolean;
  /** How many databases there are, as far as the target reports it. */
  readonly databases: number;
  /** The id of its history, see history-id.ts; undefined if it does not report one. */
  readonly historyId?: string | undefined;
  /** The id of the Ropeway installation that it stores, see installation-id.ts. */
  readonly installationId?: string | undefined;
}

/** More databases than any server is configured for. */
const MOST_DATABASES = 65_536;
/** The number of databases tried in one round trip. */
const SELECTS = 64;
const FAR_MS = 4_102_444_800_000; // 2100-01-01
/** Tries the needed commands on a temporary key. */
export async function probe(connection: Connection, task: string): Promise<Abilities> {
  const key = `${discardedKey(task)}:probe`;
  const ask = async (...commands: (string | Buffer)[][]): Promise<Reply[]> => {
    const writer = new RespWriter();
    for (const command of commands) writer.command(command);
    return connection.exchange(writer.take(), commands.length);
  };
  const works = (reply: Reply | undefined) => !(reply instanceof ErrorReply);
  const [set, dump] = await ask(["SET", key, "1"], ["DUMP", key]);
  if (set instanceof ErrorReply) throw new TargetRefusedError(connection.where, set.message, 0);
  const payload = Buffer.isBuffer(dump) ? dump : undefined;
  const far = String(FAR_MS);
  const replies = await ask(
    ["RESTORE", key, "0", payload ?? "", "REPLACE"],
    ["RESTORE", key, far, payload ?? "", "REPLACE", "ABSTTL"],
    ["SET", key, "1", "PXAT", far],
    ["PEXPIRETIME", key],
    ["UNLINK", key],
    ["FUNCTION", "LIST"],
    ["CONFIG", "GET", "databases"],
    ["INFO", "server"],
    ["INFO", "replication"],
    INSTALLATION_QUERY,
    ["MSET", key, "1"],
    ["DEL", key],
  );
  const [replace, absTtl, pxAt, expireTime, unlink, functions, ...facts] = replies;
  const [databases, info, history, installation, mset] = facts;
  const listed = Array.isArray(databases) ? Number(databases[1]) : Number.NaN;
  const { family, version } = parseServerInfo(Buffer.isBuffer(info) ? info.toString() : "");
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return {
    family,
    // A server that does not report its version is treated as a new one; its refusals are handled later.
    version: version === "" ? [7, 0] : [major, minor],
    // 0 if there is no DUMP or no RESTORE.
    rdbVersion:
      payload === undefined || (!works(absTtl) && !works(replace))
        ? 0
        : payload.readUInt16LE(payload.length - 10),
    restoreReplace: works(replace),
    restoreAbsTtl: works(absTtl),
    setPxAt: works(pxAt),
    mset: works(mset),
    pExpireTime: works(expireTime),
    unlink: works(unlink),
    functions: works(functions),
    databases: Number.isInteger(listed) ? listed : await countDatabases(ask),
    historyId: historyId(history),
    installationId: installationId(installation),
  };
}

/** Counts the databases of a server that does not report them: it refuses to select others. */
async function countDatabases(ask: (...commands: string[][]) => Promise<Reply[]>): Promise<number> {
  let has = 0;
  let lacks = MOST_DATABASES;
  while (lacks - has > 1) {
    const step = Math.max(1, Math.floor((lacks - has) / SELECTS));
    const tried: number[] = [];
    for (let db = has + step; db < lacks && tried.length < SELECTS; db += step) tried.push(db);
    const replies = await ask(...tried.map((db) => ["SELECT", String(db)]), ["SELECT", "0"]);
    const first = tried.findIndex((_, at) => replies[at] instanceof ErrorReply);
    if (first !== 0) has = tried[first < 0 ? tried.length - 1 : first - 1] as number;
    if (first >= 0) lacks = tried[first] as number;
  }
  return lacks;
}
