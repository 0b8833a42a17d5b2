/** Writes that show every loss and every repetition: counters, lists, strings that grow, transactions. */
import type { RedisServer } from "@ropeway/testkit";

/** What the source and the target must agree on afterwards. */
export const GROWING = ["n", "list", "text", "txn-a", "txn-b"] as const;

/** Writes until stopped; returns how many rounds it made. */
export async function writeUntil(server: RedisServer, stopped: () => boolean): Promise<number> {
  let rounds = 0;
  while (!stopped()) {
    const db = String(rounds % 3);
    // One pipeline on one connection: the testkit sends commands in the order of the calls.
    await Promise.all([
      server.command("SELECT", db),
      server.command("INCR", "n"),
      server.command("LPUSH", "list", String(rounds)),
      server.command("APPEND", "text", `${rounds},`),
      server.command("MULTI"),
      server.command("INCRBY", "txn-a", "3"),
      server.command("DECRBY", "txn-b", "3"),
      server.command("EXEC"),
    ]);
    rounds += 1;
  }
  await server.command("SELECT", "0");
  return rounds;
}

/** The growing keys of three databases, read with plain commands. */
export async function readGrowing(server: RedisServer): Promise<Record<string, unknown>> {
  const found: Record<string, unknown> = {};
  for (const db of ["0", "1", "2"]) {
    await server.command("SELECT", db);
    for (const key of GROWING) {
      const read = key === "list" ? ["LRANGE", key, "0", "-1"] : ["GET", key];
      found[`${db}:${key}`] = String(await server.command(...(read as [string, ...string[]])));
    }
  }
  await server.command("SELECT", "0");
  return found;
}

/** A number of INFO. */
export async function infoNumber(server: RedisServer, field: string): Promise<number> {
  const info = String(await server.command("INFO"));
  return Number(new RegExp(`^${field}:(\\d+)`, "m").exec(info)?.[1] ?? Number.NaN);
}
