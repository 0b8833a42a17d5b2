/** Gives keys that the TTL fence held back their real expiry; see ttl-fence.ts. */
import type { StreamNote } from "../apply/applier.ts";
import type { TargetReader } from "../sink/sink.ts";
import { Transaction } from "../sink/transaction.ts";
import { type Alias, type HeldEntry, type HeldExpiry, readHeld, type Swap } from "./ttl-fence.ts";

/** What is needed to settle expiries. */
export interface SettleOptions {
  /** The key of the list. */
  readonly listKey: string;
  readonly reader: TargetReader;
  readonly signal: AbortSignal;
  /** Applies a transaction under the fence of the task. */
  commit(transaction: Transaction<StreamNote>): Promise<void>;
}

/** An expiry this near to the fence is the fence: it is a month away, and clocks differ by less than this. */
const TOLERANCE_MS = 60_000;
const READ_ENTRIES = 100;

/** Processes the whole list. Resolves with the number of keys that got their expiry. */
export async function settle(options: SettleOptions): Promise<number> {
  const { reader, listKey, signal } = options;
  const moves = await readMoves(reader, listKey);
  let settled = 0;
  while (!signal.aborted) {
    const [head] = await readList(reader, listKey, [0, 0]);
    if (head === undefined) break;
    settled += await settleEntry(options, readHeld(head), moves);
  }
  return settled;
}

/** Sets the expiries of one entry and removes it, in one transaction. Repeating it is harmless. */
async function settleEntry(
  options: SettleOptions,
  { fenceMs, records }: HeldEntry,
  moves: Moves,
): Promise<number> {
  const held = records.filter((record) => record.kind === "expiry");
  const candidates = held.flatMap((record) => [record, ...followed(record, moves)]);
  const expiries = await readExpiries(options.reader, candidates);
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

/** The moves of expiries: in the order of the stream, and, as long as no databases were exchanged, by key. */
interface Moves {
  readonly all: readonly (Alias | Swap)[];
  readonly swapped: boolean;
  readonly byKey: ReadonlyMap<string, readonly Alias[]>;
}

async function readMoves(reader: TargetReader, listKey: string): Promise<Moves> {
  const all: (Alias | Swap)[] = [];
  const byKey = new Map<string, Alias[]>();
  let complete = false;
  for (let from = 0; !complete; from += READ_ENTRIES) {
    const entries = await readList(reader, listKey, [from, from + READ_ENTRIES - 1]);
    for (const record of entries.flatMap((entry) => readHeld(entry).records)) {
      if (record.kind === "expiry") continue;
      all.push(record);
      if (record.kind === "swap") continue;
      const place = placeOf(record.db, record.key);
      const known = byKey.get(place) ?? [];
      byKey.set(place, known);
      known.push(record);
    }
    complete = entries.length < READ_ENTRIES;
  }
  return { all, byKey, swapped: all.some(({ kind }) => kind === "swap") };
}

/** The keys that an expiry may have moved to, after any number of renames and exchanges of databases. */
function followed(record: HeldExpiry, { all, byKey, swapped }: Moves): HeldExpiry[] {
  return swapped ? followedInOrder(record, all) : followedByKey(record, byKey);
}

function followedByKey(
  record: HeldExpiry,
  byKey: ReadonlyMap<string, readonly Alias[]>,
): HeldExpiry[] {
  const found: HeldExpiry[] = [];
  const visited = new Set([placeOf(record.db, record.key)]);
  const open = [record];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    for (const { toDb, toKey } of byKey.get(placeOf(next.db, next.key)) ?? []) {
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

function followedInOrder(record: HeldExpiry, all: readonly (Alias | Swap)[]): HeldExpiry[] {
  let places: HeldExpiry[] = [record];
  for (const move of all) {
    const { db, toDb } = move;
    if (move.kind === "swap") {
      const other = (at: number) => (at === db ? toDb : at === toDb ? db : at);
      places = places.map((place) => ({ ...place, db: other(place.db) }));
    } else if (places.some((place) => place.db === db && place.key.equals(move.key))) {
      places.push({ ...record, db: toDb, key: move.toKey });
    }
  }
  return places;
}

async function readList(
  reader: TargetReader,
  listKey: string,
  [from, to]: readonly [number, number],
): Promise<readonly Buffer[]> {
  const key = Buffer.from(listKey);
  const [reply] = await reader.query([{ db: 0, key, argv: ["LRANGE", key, from, to] }]);
  return Array.isArray(reply) ? (reply as Buffer[]) : [];
}

/** When the keys expire, as absolute times; -1 if a key never expires or does not exist. */
async function readExpiries(
  reader: TargetReader,
  keys: readonly { readonly db: number; readonly key: Buffer }[],
): Promise<number[]> {
  const now = await reader.now();
  const replies = await reader.query(keys.map(({ db, key }) => ({ db, key, argv: ["PTTL", key] })));
  return replies.map((reply) => {
    const ttl = Number(reply);
    return ttl < 0 || Number.isNaN(ttl) ? -1 : now + ttl;
  });
}

function placeOf(db: number, key: Buffer): string {
  return `${db}:${key.toString("latin1")}`;
}
