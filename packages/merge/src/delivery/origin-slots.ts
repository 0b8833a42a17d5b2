/**
 * Slots per origin, so that an endpoint that hangs fills the slots of its own origin and no others:
 *
 *   enter(key) --- there is a free slot ----------------------> a slot    until leave()
 *              --- its turn comes within its reservation -----> "queued"  leave() of another names it
 *              --- neither -----------------------------------> "later"   due again when that ends
 *
 * How long a turn takes is estimated from what the origin's deliveries took, and from how long the oldest
 * of them has been out. An origin that responds keeps a queue and is never idle. An origin that hangs
 * takes no key in, and its keys cost one look per reservation. Invariant: only an origin without free
 * slots has a queue.
 */

/** A due key on its way to a slot. */
export interface Ticket {
  readonly key: string;
  /** The score it was due at. */
  readonly score: string;
  /** The score under which it is reserved for us. */
  readonly reserved: string;
}

/** A slot, until it is given back. */
export interface Slot {
  readonly origin: string;
  readonly since: number;
}

/** How many slots an origin has. */
export interface OriginSlotsOptions {
  /** Slots of one origin. */
  readonly perOrigin: number;
  /** How long a queued key is ours. */
  readonly reserveMs: number;
}

interface OriginState {
  /** The oldest first. */
  readonly taken: Set<Slot>;
  readonly queued: Map<string, Ticket>;
  /** What its deliveries take lately, ms. */
  pace: number;
}

/** The weight of the newest delivery in an origin's pace. */
const NEWEST = 0.2;

/** The slots of one dispatcher; times are any clock's milliseconds. */
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
    // A key that is queued already was reserved anew; it keeps its turn and has been due since then.
    state.queued.set(ticket.key, { ...ticket, score: before?.score ?? ticket.score });
    return "queued";
  }

  /** Gives a slot back. The next queued key gets it, if there is one. */
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

  /** When the next queued key would have its turn. */
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
