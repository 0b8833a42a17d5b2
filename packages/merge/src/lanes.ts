/**
 * One lane per origin, so that a receiver that hangs fills its own lane and no other:
 *
 *   enter(key) --- there is room -----------------------------> "go"      out until leave()
 *              --- its turn comes within its reservation -----> "line"    leave() of another names it
 *              --- neither -----------------------------------> "later"   due again when that ends
 *
 * How long a turn takes is judged by what the lane's deliveries took, and by how long the oldest of them
 * has been out: a lane that moves keeps a line and is never idle, a lane that stands still takes nobody
 * in, and its keys cost one look per reservation. A line is never longer than a lane's work of one
 * reservation. Invariant: only a full lane has a line.
 */

/** A due key on its way to its lane. */
export interface Ticket {
  readonly key: string;
  /** The score it was due at. */
  readonly score: string;
  /** The score under which it is reserved for us. */
  readonly reserved: string;
}

/** A place in a lane, until it is given back. */
export interface Place {
  readonly origin: string;
  readonly since: number;
}

/** How wide the lanes are. */
export interface LaneOptions {
  /** Places of one lane. */
  readonly width: number;
  /** How long a key in line is ours. */
  readonly reserveMs: number;
}

interface Lane {
  /** The oldest first. */
  readonly out: Set<Place>;
  readonly line: Map<string, Ticket>;
  /** What its deliveries take lately, ms. */
  pace: number;
}

/** The weight of the newest delivery in a lane's pace. */
const NEWEST = 0.2;

/** All lanes of one dispatcher; times are any clock's milliseconds. */
export class Lanes {
  readonly #options: LaneOptions;
  readonly #lanes = new Map<string, Lane>();

  constructor(options: LaneOptions) {
    this.#options = options;
  }

  /** Takes a place, or stands in line, or neither. */
  enter(origin: string, ticket: Ticket, now: number): Place | "line" | "later" {
    const lane = this.#lanes.get(origin) ?? this.#open(origin);
    if (lane.out.size < this.#options.width) return occupy(lane, { origin, since: now });
    const standing = lane.line.get(ticket.key);
    if (standing === undefined && this.#turnMs(lane, now) > this.#options.reserveMs) return "later";
    // One that stands there already was reserved anew; it keeps its turn and has been due since then.
    lane.line.set(ticket.key, { ...ticket, score: standing?.score ?? ticket.score });
    return "line";
  }

  /** Gives a place back. The next in line gets it, if there is one. */
  leave(place: Place, now: number): { ticket: Ticket; place: Place } | undefined {
    const lane = this.#lanes.get(place.origin);
    if (lane?.out.delete(place) !== true) return undefined;
    const took = now - place.since;
    lane.pace += (took - lane.pace) * (lane.pace === 0 ? 1 : NEWEST);
    const [ticket] = lane.line.values();
    if (ticket === undefined) {
      if (lane.out.size === 0) this.#lanes.delete(place.origin);
      return undefined;
    }
    lane.line.delete(ticket.key);
    return { ticket, place: occupy(lane, { origin: place.origin, since: now }) };
  }

  #open(origin: string): Lane {
    const lane: Lane = { out: new Set(), line: new Map(), pace: 0 };
    this.#lanes.set(origin, lane);
    return lane;
  }

  /** When the next that stands in line would have its turn. */
  #turnMs({ out, line, pace }: Lane, now: number): number {
    const [oldest] = out;
    const each = Math.max(pace, now - (oldest?.since ?? now));
    return ((line.size + 1) * each) / this.#options.width;
  }
}

function occupy(lane: Lane, place: Place): Place {
  lane.out.add(place);
  return place;
}
