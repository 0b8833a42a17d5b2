/**
 * The time of the server as a producer knows it, so that records leave with their time in front. add.lua
 * compares, sets the right time if this one is off, and then says what it is: there is nothing to ask and
 * nothing to keep fresh. What was learned is late by the way of one reply, never early, and it runs on the
 * monotonic clock: the clock of this machine does not matter.
 */
export class ServerClock {
  /** Of performance.now(). */
  #offset: number | undefined;

  /** The server's time in ms; 0 as long as it is unknown. */
  now(): number {
    return this.#offset === undefined ? 0 : Math.floor(performance.now() + this.#offset);
  }

  /** The server has just said what time it is. */
  learn(ms: number): void {
    this.#offset = ms - performance.now();
  }
}
