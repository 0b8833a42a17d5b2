/**
 * Elects the one portal that inspects in a round: /inspect/execlock is created if it is absent, on a
 * lease of its own, and deleted with the round's end. Its create revision guards every change that the
 * round makes, so a portal that was stopped in the middle of a round changes nothing afterwards.
 */
import type { Logger } from "@ropeway/core";
import { keys } from "../keys.ts";
import { absent, createdAt, putRecord, unchanged } from "../record.ts";
import { Session } from "../session.ts";
import type { Compare, Entry, Store } from "../store/store.ts";

const LEASE_MS = 5_000;

/** A round that this portal may inspect. */
export class RoundLock {
  readonly #store: Store;
  readonly #session: Session;
  readonly #revision: number;
  readonly #seen: Entry | undefined;

  private constructor(
    store: Store,
    session: Session,
    facts: { revision: number; seen: Entry | undefined },
  ) {
    this.#store = store;
    this.#session = session;
    this.#revision = facts.revision;
    this.#seen = facts.seen;
  }

  /** The round, or undefined if another portal has it. `seen` is the last inspection's entry. */
  static async take(
    store: Store,
    nodeId: string,
    options: { readonly seen: Entry | undefined; readonly logger: Logger },
  ): Promise<RoundLock | undefined> {
    const key = keys.inspectionLock;
    if ((await store.get(key)) !== undefined) return undefined;
    const what = "the inspection lock";
    const session = await Session.open(store, { ttlMs: LEASE_MS, what, logger: options.logger });
    try {
      const taken = await store.txn({
        if: [absent(key), unchanged(keys.lastInspection, options.seen)],
        do: [putRecord(key, { nodeId }, session.lease)],
      });
      if (taken.succeeded) {
        return new RoundLock(store, session, { revision: taken.revision, seen: options.seen });
      }
      await session.close();
      return undefined;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** True as long as this portal may act. */
  get guard(): Compare {
    return createdAt(keys.inspectionLock, this.#revision);
  }

  get signal(): AbortSignal {
    return this.#session.signal;
  }

  /** Ends the round: writes its time and releases the lock. Returns whether the lock was still ours. */
  async finish(now: number): Promise<boolean> {
    try {
      const { succeeded } = await this.#store.txn({
        if: [this.guard, unchanged(keys.lastInspection, this.#seen)],
        do: [
          { op: "put", key: keys.lastInspection, value: String(now) },
          { op: "delete", key: keys.inspectionLock },
        ],
      });
      return succeeded;
    } finally {
      await this.#session.close();
    }
  }

  /** Abandons the round. */
  abandon(): Promise<void> {
    return this.#session.close();
  }
}
