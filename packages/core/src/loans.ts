/** The connections that a Redis has lent. Closing it closes them; a connection that is closed before is forgotten. */
import { ConnectionClosedError } from "./errors.ts";

/** A connection lent for one purpose. */
export interface Lent {
  opened(waitMs: number): Promise<unknown>;
  relocate(reason: unknown): void;
  /** Called when a slot is moving to another node: ends waits with returnWhenMoving. */
  slotMoves?(): void;
  close(): Promise<void>;
}

/** All lent connections of one Redis that are still open. */
export class Loans {
  readonly #where: string;
  readonly #open = new Set<Lent>();
  #closed = false;

  constructor(where: string) {
    this.#where = where;
  }

  /** Lends the connection that `make` creates, once it is open. `make` gets a function to call when it is closed. */
  async lend<L extends Lent>(make: (onClosed: () => void) => L, waitMs: number): Promise<L> {
    if (this.#closed) throw new ConnectionClosedError(this.#where);
    const lent = make(() => this.#open.delete(lent));
    this.#open.add(lent);
    await lent.opened(waitMs);
    return lent;
  }

  /** Makes all of them locate their server again. */
  relocate(reason: unknown): void {
    for (const lent of this.#open) lent.relocate(reason);
  }

  /** Tells all of them that a slot is moving to another node. */
  slotMoves(): void {
    for (const lent of this.#open) lent.slotMoves?.();
  }

  /** Closes all of them. Later loans are refused. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#open].map((lent) => lent.close()));
  }
}
