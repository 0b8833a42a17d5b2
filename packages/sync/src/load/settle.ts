/** Gives keys that the TTL fence held back their real expiry; see ttl-fence.ts. */
import type { StreamNote } from "../apply/applier.ts";
import type { Reply } from "../resp/reply-reader.ts";
import { RespWriter } from "../resp/writer.ts";
import { Transaction } from "../sink/transaction.ts";
import type { Connection } from "../wire/connection.ts";
import { type Alias, type HeldEntry, type HeldExpiry, readHeld } from "./ttl-fence.ts";

/** Where expiries are settled. */
export interface SettleOptions {
  /** The key of the list. */
  readonly listKey: string;
  readonly connection: Connection;
  readonly signal: AbortSignal;
  /** Applies a transaction under the fence of the task. */
  commit(transaction: Transaction<StreamNote>): Promise<void>;
}

/** An expiry this near to the fence is the fence: it is a month away, and clocks agree better than that. */
const TOLERANCE_MS = 60_000;
const READ_ENTRIES = 100;

/** Works the list off; resolves with the number of keys that got their expiry. */
export async function settle(options: SettleOptions): Promise<number> {
  const { connection, listKey, signal } = options;
  const aliases = await readAliases(connection, listKey);
  let settled = 0;
  while (!signal.aborted) {
    const [head] = await connection.call<readonly Buffer[]>("LRANGE", listKey, 0, 0);
    if (head === undefined) break;
    settled += await settleEntry(options, readHeld(head), aliases);
  }
  return settled;
}

/** Sets the expiries of one entry and removes it, together. Doing it twice does no harm. */
async function settleEntry(
  options: SettleOptions,
  { fenceMs, records }: HeldEntry,
  aliases: ReadonlyMap<string, readonly Alias[]>,
): Promise<number> {
  const held = records.filter((record) => record.kind === "expiry");
  const candidates = held.flatMap((record) => [record, ...followed(record, aliases)]);
  const expiries = await readExpiries(options.connection, candidates);
  const transaction = new Transaction<StreamNote>();
  let settled = 0;
  candidates.forEach((candidate, index) => {
    if (Math.abs((expiries[index] ?? 0) - fenceMs) > TOLERANCE_MS) return;
    const { db, key, expiresAtMs } = candidate;
    const argv = [Buffer.from("PEXPIREAT"), key, Buffer.from(String(expiresAtMs))];
    transaction.select(db);
    transaction.command(argv, { argv, db });
    settled += 1;
  });
  const pop = [Buffer.from("LPOP"), Buffer.from(options.listKey)];
  transaction.select(0);
  transaction.command(pop, { argv: pop, db: 0 });
  await options.commit(transaction);
  return settled;
}

/** Keys that took over the expiry of another one, by that one. */
async function readAliases(connection: Connection, listKey: string): Promise<Map<string, Alias[]>> {
  const aliases = new Map<string, Alias[]>();
  for (let from = 0; ; from += READ_ENTRIES) {
    const to = from + READ_ENTRIES - 1;
    const entries = await connection.call<readonly Buffer[]>("LRANGE", listKey, from, to);
    for (const record of entries.flatMap((entry) => readHeld(entry).records)) {
      if (record.kind !== "alias") continue;
      const place = placeOf(record.db, record.key);
      aliases.set(place, [...(aliases.get(place) ?? []), record]);
    }
    if (entries.length < READ_ENTRIES) return aliases;
  }
}

/** Where an expiry may have gone, over any number of renames. */
function followed(
  record: HeldExpiry,
  aliases: ReadonlyMap<string, readonly Alias[]>,
): HeldExpiry[] {
  const found: HeldExpiry[] = [];
  const visited = new Set([placeOf(record.db, record.key)]);
  const open = [record];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const { toDb, toKey } of aliases.get(placeOf(next.db, next.key)) ?? []) {
      const place = placeOf(toDb, toKey);
      if (visited.has(place)) continue;
      visited.add(place);
      const reached = { ...record, db: toDb, key: toKey };
      found.push(reached);
      open.push(reached);
    }
  }
  return found;
}

/** When the keys expire, as absolute times; -1: never, or there is no such key. */
async function readExpiries(
  connection: Connection,
  keys: readonly { readonly db: number; readonly key: Buffer }[],
): Promise<number[]> {
  const writer = new RespWriter();
  let count = 1;
  let db = 0;
  writer.command(["TIME"]);
  const places: number[] = [];
  for (const { db: wanted, key } of keys) {
    if (wanted !== db) {
      writer.command(["SELECT", wanted]);
      db = wanted;
      count += 1;
    }
    places.push(count);
    writer.command(["PTTL", key]);
    count += 1;
  }
  if (db !== 0) {
    writer.command(["SELECT", 0]);
    count += 1;
  }
  const replies = await connection.exchange(writer.take(), count);
  const [seconds, micros] = replies[0] as readonly Reply[];
  const now = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  return places.map((place) => {
    const ttl = Number(replies[place]);
    return ttl < 0 || Number.isNaN(ttl) ? -1 : now + ttl;
  });
}

function placeOf(db: number, key: Buffer): string {
  return `${db}:${key.toString("latin1")}`;
}
