/**
 * Servers that a task must not use, recognised by a key that they have. A user who may create tasks
 * could otherwise change the accounts of the Ropeway installation that runs it. Every connection checks
 * this, because a name, a Sentinel or a cluster may lead to another server the next time.
 */
import { InvalidOptionError } from "@ropeway/core";

/** Throws InvalidOptionError if the server has one of the keys; `has` queries the server, in database 0. */
export async function refuseOffLimits(
  where: string,
  keys: readonly string[],
  has: (key: string) => Promise<boolean>,
): Promise<void> {
  for (const key of keys) {
    if (!(await has(key))) continue; // a user without permission to read the key cannot use it either
    const allowed = `another one: it has the key ${key}, so it keeps the accounts and tasks of Ropeway, and only a task of an admin may use it`;
    throw new InvalidOptionError("server", where, allowed);
  }
}
