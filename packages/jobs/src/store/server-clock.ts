/**
 * A producer's estimate of the server's time, so that it can send records with their time. add.lua compares the
 * time, replaces it if it is wrong, and then returns the right one. So no extra command is needed to learn the
 * time or keep it fresh. The estimate is late by the travel time of one reply, never early. It uses the
 * monotonic clock, so the wall clock of this machine does not matter.
 */
export class ServerClock {
  /** The server's time minus performance.now(). */
  #offset: number | undefined;

  /** The server's time in ms; 0 while it is unknown. */
  now(): number {
    return this.#offset === undefined ? 0 : Math.floor(performance.now() + this.#offset);
  }

  /** Sets the server's time, from a reply that has just arrived. */
  learn(ms: number): void {
    this.#offset = ms - performance.now();
  }
}
