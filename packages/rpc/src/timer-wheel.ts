/**
 * One timer for all deadlines. A timer per call would cost more than the call; here setting one is a
 * link into a list, and almost every call removes its own before anything fires.
 *
 *   slots   0     1     2   ...  255          each a ring of entries due in that 16 ms,
 *           |     |     |                     now or some turns of the wheel later
 *           e <-> e     e
 *
 * The clock ticks only while something is set, and fires at most one tick late, never early.
 */
const SLOTS = 256;
const TICK_MS = 16;

/** Something that can be due. Make it a member of your own object, or extend it. */
export abstract class WheelEntry {
  /** Of the wheel; leave alone. */
  dueTick = 0;
  before: WheelEntry | undefined;
  after: WheelEntry | undefined;

  abstract due(): void;
}

class SlotHead extends WheelEntry {
  due(): void {}
}

/** See the top of the file. */
export class TimerWheel {
  readonly #slots: readonly WheelEntry[] = Array.from({ length: SLOTS }, () => {
    const head = new SlotHead();
    head.before = head;
    head.after = head;
    return head;
  });
  readonly #began = performance.now();
  #count = 0;
  #tick = 0;
  #timer: NodeJS.Timeout | undefined;

  get size(): number {
    return this.#count;
  }

  /** Calls `entry.due()` once, `ms` from now; `at` is now, for callers that know it already. */
  set(entry: WheelEntry, ms: number, at: number = performance.now()): void {
    if (entry.after !== undefined) this.clear(entry);
    if (this.#timer === undefined) this.#start();
    const now = at - this.#began;
    entry.dueTick = Math.max(this.#tick + 1, Math.ceil((now + ms) / TICK_MS));
    const head = this.#slots[entry.dueTick % SLOTS] as WheelEntry;
    const last = head.before as WheelEntry;
    last.after = entry;
    entry.before = last;
    entry.after = head;
    head.before = entry;
    this.#count += 1;
  }

  /** Makes sure that it is never due; does nothing if it is not set. */
  clear(entry: WheelEntry): void {
    const { before, after } = entry;
    if (before === undefined || after === undefined) return;
    before.after = after;
    after.before = before;
    entry.before = undefined;
    entry.after = undefined;
    this.#count -= 1;
  }

  #start(): void {
    this.#tick = Math.floor((performance.now() - this.#began) / TICK_MS);
    this.#timer = setInterval(() => this.#turn(), TICK_MS);
    this.#timer.unref(); // sockets keep a process alive, its deadlines need not
  }

  /** Walks the slots whose time has come since the last turn. */
  #turn(): void {
    const until = Math.floor((performance.now() - this.#began) / TICK_MS);
    const from = Math.max(this.#tick + 1, until - SLOTS + 1);
    this.#tick = until;
    for (let tick = from; tick <= until; tick++) this.#fire(tick % SLOTS, until);
    if (this.#count > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #fire(slot: number, until: number): void {
    const head = this.#slots[slot] as WheelEntry;
    const due: WheelEntry[] = [];
    for (let entry = head.after as WheelEntry; entry !== head; entry = entry.after as WheelEntry) {
      if (entry.dueTick <= until) due.push(entry);
    }
    // Collected first: what one of them does may clear or set others.
    for (const entry of due) {
      if (entry.after === undefined || entry.dueTick > until) continue;
      this.clear(entry);
      entry.due();
    }
  }
}
