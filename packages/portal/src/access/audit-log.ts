/**
 * The audit log: who changed what, when, from where, and with which outcome. An entry is written before
 * the change is made and completed afterwards, so that a change without an entry cannot happen, also if
 * the process dies in between (`outcome` then stays "started").
 *
 * Entries are written also while Redis is out of memory: otherwise nothing could be removed then.
 *
 * Ids count backwards in time, so that the store's order is newest first.
 */
import { randomBytes } from "node:crypto";
import type { Entry, Store } from "@ropeway/cluster";
import {
  countOf,
  decodeCursor,
  encodeCursor,
  keys,
  lastPart,
  putRecord,
  recordOf,
  textOf,
  timeOf,
} from "@ropeway/cluster/internal";
import { type Clock, localClock, type Page } from "@ropeway/core";

const OUTCOMES = ["started", "done", "refused", "failed"] as const;

/** One change, or an attempt to make one. */
export interface AuditEntry {
  readonly id: string;
  readonly at: number;
  /** The account; "-" without a login. */
  readonly actor: string;
  readonly via: string;
  /** The address it came from. */
  readonly from: string;
  /** Such as POST /api/tasks/:id/stop. */
  readonly action: string;
  /** Such as /api/tasks/task_1/stop. */
  readonly path: string;
  /** What was changed, such as `user ann role operator`; "" if it is no single thing. */
  readonly subject: string;
  readonly requestId: string;
  /** How it ended: done, refused (it was not allowed), failed, or started (it may have been made, or not). */
  readonly outcome: (typeof OUTCOMES)[number];
  /** The HTTP status; 0 while it is not known. */
  readonly status: number;
}

/** Which entries. */
export interface AuditFilter {
  readonly actor?: string | undefined;
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
}

const END_OF_TIME = 9_999_999_999_999;
/** The maximum number of entries. Beyond it, the oldest entries of the accounts with the most are removed. */
export const AUDIT_KEPT = 50_000;

/** The audit log of one installation. */
export class AuditLog {
  readonly #store: Store;
  readonly #clock: Clock;

  constructor(store: Store, clock: Clock = localClock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Writes a new entry. */
  async begin(entry: Omit<AuditEntry, "id" | "at">): Promise<AuditEntry> {
    const at = Math.floor(this.#clock.now());
    const id = `${String(END_OF_TIME - at).padStart(13, "0")}_${randomBytes(6).toString("hex")}`;
    const whole: AuditEntry = { id, at, ...entry };
    await this.#write(whole);
    return whole;
  }

  /** Writes how it ended. */
  async complete(entry: AuditEntry, end: Pick<AuditEntry, "outcome" | "status">): Promise<void> {
    await this.#write({ ...entry, ...end });
  }

  async #write(entry: AuditEntry): Promise<void> {
    await this.#store.txn({ do: [putRecord(keys.audit(entry.id), entry)], evenIfFull: true });
  }

  /** A page, newest first. */
  async list({ actor, cursor, limit = 50 }: AuditFilter = {}): Promise<Page<AuditEntry>> {
    const items: AuditEntry[] = [];
    let seen = decodeCursor(cursor);
    let after = seen === undefined ? undefined : keys.audit(seen);
    for (let looked = 0; looked < 5_000; ) {
      const found = await this.#store.range(keys.audits, {
        limit: Math.min(1_000, limit * (actor === undefined ? 1 : 4)),
        after,
      });
      looked += found.entries.length;
      for (const entry of found.entries) {
        after = entry.key;
        if (entry.key !== keys.audit(lastPart(entry.key))) continue; // of another program
        seen = lastPart(entry.key);
        const one = entryOf(entry);
        if (one !== undefined && (actor === undefined || one.actor === actor)) items.push(one);
        if (items.length === limit) break;
      }
      const last = found.entries.at(-1);
      if (!found.more && (last === undefined || last.key === after)) return { items };
      if (items.length === limit) break;
    }
    return seen === undefined ? { items } : { items, cursor: encodeCursor(seen) };
  }

  /**
   * Removes the oldest entries beyond the bound, of the accounts with the most: no account can push the
   * entries of others out by adding many.
   */
  async trim(kept: number = AUDIT_KEPT): Promise<void> {
    const found = await this.#keysByActor();
    const share = shareOf(
      [...found.values()].map(({ length }) => length),
      kept,
    );
    const excess = [...found.values()].flatMap((ofOne) => ofOne.slice(share));
    for (let at = 0; at < excess.length; at += 100) {
      const part = excess.slice(at, at + 100);
      await this.#store.txn({ do: part.map((key) => ({ op: "delete", key })) });
    }
  }

  /** The keys of all entries, newest first. Failed logins can name any account, so they count as one actor. */
  async #keysByActor(): Promise<Map<string, string[]>> {
    const found = new Map<string, string[]>();
    let after: string | undefined;
    do {
      const { entries, more } = await this.#store.range(keys.audits, { after });
      for (const entry of entries) {
        const { actor = "-", via, outcome } = recordOf<Partial<AuditEntry>>(entry) ?? {};
        const owner = via === "-" && outcome !== "done" ? "-" : actor;
        const ofOne = found.get(owner);
        if (ofOne === undefined) found.set(owner, [entry.key]);
        else ofOne.push(entry.key);
      }
      after = more ? entries.at(-1)?.key : undefined;
    } while (after !== undefined);
    return found;
  }
}

/** The change in an entry; what another program, or an earlier version, left out gets its default. */
function entryOf(entry: Entry): AuditEntry | undefined {
  const found = recordOf<Partial<Record<keyof AuditEntry, unknown>>>(entry);
  if (found === undefined) return undefined;
  return {
    id: lastPart(entry.key),
    at: timeOf(found.at) ?? 0,
    actor: textOf(found.actor),
    via: textOf(found.via),
    from: textOf(found.from),
    action: textOf(found.action),
    path: textOf(found.path),
    subject: textOf(found.subject),
    requestId: textOf(found.requestId),
    outcome: OUTCOMES.find((one) => one === found.outcome) ?? "started",
    status: countOf(found.status),
  };
}

/** The most that each may keep so that all together keep no more than `kept`. */
function shareOf(counts: readonly number[], kept: number): number {
  let [room, sharers] = [kept, counts.length];
  for (const count of [...counts].sort((a, b) => a - b)) {
    if (count * sharers > room) return Math.floor(room / sharers);
    room -= count;
    sharers -= 1;
  }
  return Number.POSITIVE_INFINITY;
}
