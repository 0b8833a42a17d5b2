/**
 * Numbers the sends of this process, so that a send whose reply was lost is applied once, also if its
 * message was read and removed before it is sent again. Each send under way has a slot of its own; the
 * script stores the number of the last send by slot. A slot is used again only when its send has ended,
 * so Redis keeps one field per send that was ever under way at the same time, not one per message.
 */
import { newToken } from "@ropeway/core/internal";

/** Identifies a send in a script. */
export interface SendNumber {
  readonly slot: string;
  readonly number: number;
}

class SendSlots {
  readonly #id = newToken();
  readonly #free: number[] = [];
  #slots = 0;
  #sends = 0;

  /** Runs one send under a number that no other send has. */
  async run<T>(send: (number: SendNumber) => Promise<T>): Promise<T> {
    const slot = this.#free.pop() ?? this.#slots++;
    this.#sends += 1;
    try {
      return await send({ slot: `${this.#id}.${slot}`, number: this.#sends });
    } finally {
      this.#free.push(slot);
    }
  }
}

/** The sends of this process. */
export const sendSlots: SendSlots = new SendSlots();
