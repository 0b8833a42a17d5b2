/**
 * Slots per origin, so that an endpoint that hangs fills only the slots of its own origin:
 *
 *   enter(key) --- there is a free slot ----------------------> a slot    until leave()
 *              --- its turn comes within its reservation -----> "queued"  leave() of another returns it
 *              --- neither -----------------------------------> "later"   due again when that ends
 *
 * The time until a turn is estimated from the duration of the origin's deliveries, and from how long the oldest
 * of them has been running. An origin that responds keeps a queue and is never idle. An origin that hangs
 * accepts no keys, and each of its keys costs one check per reservation. Invariant: only an origin without free
 * slots has a queue.
 */

/** A due key that waits for a slot. */
export interface Ticket {
  readonly key: string;
  /** The score at which it was due. */
  readonly score: string;
  /** The score under which it is reserved for us. */
  readonly reserved: string;
}

/** A taken slot, until leave(). */
export interface Slot {
  readonly origin: string;
  readonly since: number;
}

/** The options of OriginSlots. */
export interface OriginSlotsOptions {
  /** Slots of one origin. */
  readonly perOrigin: number;
  /** How long a queued key is reserved for us. */
  readonly reserveMs: number;
}

interface OriginState {
  /** The oldest first. */
  readonly taken: Set<Slot>;
  readonly queued: Map<string, Ticket>;
  /** The moving average of the duration of its deliveries, ms. */
  pace: number;
}

/** The weight of the newest delivery in an origin's pace. */
const NEWEST = 0.2;

/** The slots of one dispatcher. Times are milliseconds of any clock. */
export class OriginSlots {
  readonly #options: OriginSlotsOptions;
  readonly #origins = new Map<string, OriginState>();

  constructor(options: OriginSlotsOptions) {
    this.#options = options;
  }

  /** Takes a slot, or queues, or neither. */
  enter(origin: string, ticket: Ticket, now: number): Slot | "queued" | "later" {
    const state = this.#origins.get(origin) ?? this.#open(origin);
    if (state.taken.size < this.#options.perOrigin) return occupy(state, { origin, since: now });
    const before = state.queued.get(ticket.key);
    if (before === undefined && this.#turnMs(state, now) > this.#options.reserveMs) return "later";
    // A key that is already queued was reserved again. It keeps its turn and its first due time.
    state.queued.set(ticket.key, { ...ticket, score: before?.score ?? ticket.score });
    return "queued";
  }

  /** Releases a slot. The next queued key gets it, if there is one. */
  leave(slot: Slot, now: number): { ticket: Ticket; slot: Slot } | undefined {
    const state = this.#origins.get(slot.origin);
    if (state?.taken.delete(slot) !== true) return undefined;
    const took = now - slot.since;
    state.pace += (took - state.pace) * (state.pace === 0 ? 1 : NEWEST);
    const [ticket] = state.queued.values();
    if (ticket === undefined) {
      if (state.taken.size === 0) this.#origins.delete(slot.origin);
      return undefined;
    }
    state.queued.delete(ticket.key);
    return { ticket, slot: occupy(state, { origin: slot.origin, since: now }) };
  }

  #open(origin: string): OriginState {
    const state: OriginState = { taken: new Set(), queued: new Map(), pace: 0 };
    this.#origins.set(origin, state);
    return state;
  }

  /** The ms until the next queued key would get its turn. */
  #turnMs({ taken, queued, pace }: OriginState, now: number): number {
    const [oldest] = taken;
    const each = Math.max(pace, now - (oldest?.since ?? now));
    return ((queued.size + 1) * each) / this.#options.perOrigin;
  }
}

function occupy(state: OriginState, slot: Slot): Slot {
  state.taken.add(slot);
  return slot;
}
