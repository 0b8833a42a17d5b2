/**
 * One timer for all deadlines. A timer per call would cost more than the call. Here setting one adds
 * it to a list, and almost every call removes its own before it is due.
 *
 *   slots   0     1     2   ...  255          each a ring of entries due in that 16 ms,
 *           |     |     |                     now or some turns of the wheel later
 *           e <-> e     e
 *
 * The timer sleeps until the next slot that has entries. If all entries are cleared in time,
 * as they are when calls get their responses, it wakes the process about once in four seconds. An entry is due
 * at most one tick late, never early.
 */
const SLOTS = 256;
const TICK_MS = 16;

/**
 * An entry of the wheel. Extend it, but not in classes with an object per call: with more than four
 * subclasses, V8 creates the fields of every new entry slowly. Such classes use a WheelTimer when they need one.
 */
export abstract class WheelEntry {
  /** Internal to the wheel. */
  dueTick = 0;
  before: WheelEntry | undefined;
  after: WheelEntry | undefined;

  abstract due(): void;
}

/** An entry that calls a function when it is due. */
export class WheelTimer extends WheelEntry {
  readonly #onDue: () => void;

  constructor(onDue: () => void) {
    super();
    this.#onDue = onDue;
  }

  override due(): void {
    this.#onDue();
  }
}

class SlotHead extends WheelEntry {
  due(): void {}
}

/** One timer for many deadlines. */
export class TimerWheel {
  readonly #slots: readonly WheelEntry[] = Array.from({ length: SLOTS }, () => {
    const head = new SlotHead();
    head.before = head;
    head.after = head;
    return head;
  });
  readonly #began = performance.now();
  #count = 0;
  /** The last tick whose slot has been processed. */
  #tick = 0;
  /** The tick that the timer waits for. */
  #wakeTick = Number.POSITIVE_INFINITY;
  #timer: NodeJS.Timeout | undefined;

  get size(): number {
    return this.#count;
  }

  /** Calls `entry.due()` once, `ms` from now; `at` is now, for callers that already know it. */
  set(entry: WheelEntry, ms: number, at: number = performance.now()): void {
    if (entry.after !== undefined) this.clear(entry);
    const now = at - this.#began;
    if (this.#count === 0) this.#tick = Math.max(this.#tick, Math.floor(now / TICK_MS));
    entry.dueTick = Math.max(this.#tick + 1, Math.ceil((now + ms) / TICK_MS));
    const head = this.#slots[entry.dueTick % SLOTS] as WheelEntry;
    const last = head.before as WheelEntry;
    last.after = entry;
    entry.before = last;
    entry.after = head;
    head.before = entry;
    this.#count += 1;
    // At most one turn ahead: the wheel passes the slot by then, without effect.
    if (entry.dueTick >= this.#wakeTick) return;
    this.#sleepUntil(Math.min(entry.dueTick, this.#tick + SLOTS));
  }

  /** Removes the entry. Has no effect if it is not set. */
  clear(entry: WheelEntry): void {
    const { before, after } = entry;
    if (before === undefined || after === undefined) return;
    before.after = after;
    after.before = before;
    entry.before = undefined;
    entry.after = undefined;
    this.#count -= 1;
  }

  #sleepUntil(tick: number): void {
    clearTimeout(this.#timer);
    this.#wakeTick = tick;
    const ms = tick * TICK_MS - (performance.now() - this.#began);
    this.#timer = setTimeout(() => this.#turn(), Math.max(1, Math.ceil(ms)));
    this.#timer.unref(); // sockets keep a process alive; deadlines need not
  }

  /** Processes the slots that became due since the last turn. */
  #turn(): void {
    this.#timer = undefined;
    this.#wakeTick = Number.POSITIVE_INFINITY;
    const until = Math.floor((performance.now() - this.#began) / TICK_MS);
    const from = Math.max(this.#tick + 1, until - SLOTS + 1);
    this.#tick = until;
    for (let tick = from; tick <= until; tick++) this.#fire(tick % SLOTS, until);
    if (this.#count === 0) return;
    for (let tick = until + 1; tick <= until + SLOTS; tick++) {
      const head = this.#slots[tick % SLOTS] as WheelEntry;
      if (head.after === head || tick >= this.#wakeTick) continue;
      this.#sleepUntil(tick);
      return;
    }
  }

  #fire(slot: number, until: number): void {
    const head = this.#slots[slot] as WheelEntry;
    const due: WheelEntry[] = [];
    for (let entry = head.after as WheelEntry; entry !== head; entry = entry.after as WheelEntry) {
      if (entry.dueTick <= until) due.push(entry);
    }
    // Collected first, because one entry may clear or set others.
    for (const entry of due) {
      if (entry.after === undefined || entry.dueTick > until) continue;
      this.clear(entry);
      entry.due();
    }
  }
}
