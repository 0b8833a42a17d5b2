/** The slots in which calls run: counts them, and wakes calls that wait for one. */

/** The free and taken slots of one worker. */
export class Slots {
  readonly limit: number;
  /** Called when the last free slot was taken. */
  onFull: () => void = () => {};
  readonly #waiting = new Set<() => void>();
  #taken = 0;

  constructor(limit: number) {
    this.limit = limit;
  }

  get taken(): number {
    return this.#taken;
  }

  get free(): number {
    return Math.max(0, this.limit - this.#taken);
  }

  /** The number of calls that wait for a slot. */
  get waiting(): number {
    return this.#waiting.size;
  }

  take(): void {
    this.#taken += 1;
    if (this.#taken === this.limit) this.onFull();
  }

  release(): void {
    this.#taken -= 1;
    for (const wake of [...this.#waiting]) wake();
  }

  /** Resolves when a slot becomes free, at the latest after `withinMs`; at once if one is free. */
  freed(withinMs: number, always: boolean = false): Promise<void> {
    if (this.free > 0 && !always) return Promise.resolve();
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, withinMs);
      this.#waiting.add(wake);
    });
  }
}
