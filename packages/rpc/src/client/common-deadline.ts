/**
 * The deadlines of calls with the client's own timeout, which are nearly all calls. They pass in the
 * order in which the calls were sent, which is the order of the table. So one entry on the wheel, for
 * the oldest call, is enough, and a call itself sets and clears nothing.
 */
import { type TimerWheel, WheelEntry } from "../timer-wheel.ts";
import type { PendingTable } from "./pending-table.ts";

/** Ends the calls that share one timeout. */
export class CommonDeadline extends WheelEntry {
  readonly #wheel: TimerWheel;
  readonly #pending: PendingTable;
  readonly #timeoutMs: number;

  constructor(wheel: TimerWheel, pending: PendingTable, timeoutMs: number) {
    super();
    this.#wheel = wheel;
    this.#pending = pending;
    this.#timeoutMs = timeoutMs;
  }

  /** Call it when a call with this timeout was sent; `at` is now. */
  watch(at: number): void {
    if (this.after === undefined) this.#wheel.set(this, this.#timeoutMs, at);
  }

  override due(): void {
    const now = performance.now();
    for (const receiver of this.#pending) {
      if (!receiver.sharesDeadline) continue;
      const left = receiver.sentAt + this.#timeoutMs - now;
      if (left > 0) {
        this.#wheel.set(this, left, now);
        return;
      }
      receiver.due();
    }
  }
}
