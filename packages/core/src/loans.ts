/** The connections a Redis has lent: closed together with it, forgotten when they are closed before. */
import { ConnectionClosedError } from "./errors.ts";

/** A connection lent for one purpose. */
export interface Lent {
  opened(waitMs: number): Promise<unknown>;
  relocate(reason: unknown): void;
  /** A slot is on its way to another node: a wait that wants to know is ended. */
  slotMoves?(): void;
  close(): Promise<void>;
}

/** Everything one Redis has lent and not yet got back. */
export class Loans {
  readonly #where: string;
  readonly #open = new Set<Lent>();
  #closed = false;

  constructor(where: string) {
    this.#where = where;
  }

  /** Lends what `make` makes, once it is open; `make` is given what to call when that is closed. */
  async lend<L extends Lent>(make: (onClosed: () => void) => L, waitMs: number): Promise<L> {
    if (this.#closed) throw new ConnectionClosedError(this.#where);
    const lent = make(() => this.#open.delete(lent));
    this.#open.add(lent);
    await lent.opened(waitMs);
    return lent;
  }

  /** Has all of them find their place anew. */
  relocate(reason: unknown): void {
    for (const lent of this.#open) lent.relocate(reason);
  }

  /** Tells them that a slot is on its way to another node. */
  slotMoves(): void {
    for (const lent of this.#open) lent.slotMoves?.();
  }

  /** Closes all of them; nothing is lent any more. */
  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#open].map((lent) => lent.close()));
  }
}
