/**
 * Servers that a task must not use, recognised by a key that they have. A user who may create tasks
 * could otherwise change the accounts of the Ropeway installation that runs it. Every connection checks
 * this, because a name, a Sentinel or a cluster may lead to another server the next time.
 *
 * An installation can use any database of its server, and a task copies all of them, so all are searched.
 */
import { ConnectionLostError, InvalidOptionError } from "@ropeway/core";

/** How to query the server before the connection is used. */
export interface OffLimitsQueries {
  /** The reply to INFO keyspace, or an error that begins with "-". */
  keyspace(): Promise<string>;
  /** The replies to commands that are sent together: ":1" for the number 1. */
  all(commands: readonly (readonly string[])[]): Promise<readonly string[]>;
}

/** The databases that are searched if the server refuses INFO: as many as Redis has by default. */
const USUAL_DATABASES = Array.from({ length: 16 }, (_, n) => String(n));

/**
 * Throws InvalidOptionError if the server has one of the keys, and ConnectionLostError if it is still loading them.
 * Leaves database 0 selected.
 */
export async function refuseOffLimits(
  where: string,
  keys: readonly string[],
  queries: OffLimitsQueries,
): Promise<void> {
  if (keys.length === 0) return;
  const databases = databasesOf(await queries.keyspace());
  const commands = databases.flatMap((db) => [
    ["SELECT", db],
    ...keys.map((key) => ["EXISTS", key]),
  ]);
  // A user without permission to read a key cannot use it either. On a cluster, the key is on another server.
  const replies = await queries.all([...commands, ["SELECT", "0"]]);
  // What it has is not known yet, and the connection would be used later.
  const unready = replies.find((reply) => /^-(LOADING|MASTERDOWN|BUSY)\b/.test(reply));
  if (unready !== undefined) throw new ConnectionLostError(where, new Error(unready.slice(1)));
  const [, found] = commands[replies.indexOf(":1")] ?? [];
  if (found === undefined) return;
  const allowed = `another one: it has the key ${found}, so it keeps the accounts, tasks or sessions of Ropeway, and only a task of an admin may use it`;
  throw new InvalidOptionError("server", where, allowed);
}

/** The databases that have keys, and 0: a server that is loading has none yet, and refuses to search that one. */
function databasesOf(keyspace: string): readonly string[] {
  if (keyspace.startsWith("-")) return USUAL_DATABASES;
  const used = [...keyspace.matchAll(/^db(\d+):/gm)].map(([, db = "0"]) => db);
  return [...new Set(["0", ...used])];
}
