/**
 * All receivers of a client, by the id that they wait for, and the delivery of the reply list's elements. An
 * element of that list is one message, or an array of messages that left their worker together.
 */
import { CallIds } from "./call-ids.ts";
import type { Receiver } from "./pending-call.ts";

/** The receivers of a client, by the id they wait for. */
export class PendingTable implements Iterable<Receiver> {
  readonly ids: CallIds = new CallIds();
  readonly #waiting = new Map<number, Receiver>();
  readonly #onNonsense: (error: unknown, text: string) => void;

  constructor(onNonsense: (error: unknown, text: string) => void) {
    this.#onNonsense = onNonsense;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** In the order in which they started to wait. */
  [Symbol.iterator](): Iterator<Receiver> {
    return this.#waiting.values();
  }

  add(receiver: Receiver): void {
    if (receiver.number === 0) receiver.number = this.ids.numberOf(receiver.id);
    this.#waiting.set(receiver.number, receiver);
  }

  delete(receiver: Receiver): void {
    this.#waiting.delete(receiver.number);
  }

  get(id: unknown): Receiver | undefined {
    return this.#waiting.get(this.ids.numberOf(id));
  }

  /** Whether the id belongs to a call of this client that has already ended. */
  isOver(id: unknown): boolean {
    const number = this.ids.numberOf(id);
    return number >= 0 && !this.#waiting.has(number);
  }

  has(receiver: Receiver): boolean {
    return this.#waiting.get(receiver.number) === receiver;
  }

  /** Delivers the elements that were popped from the reply list. */
  receiveAll(texts: readonly string[]): void {
    const at = performance.now();
    for (const text of texts) {
      try {
        const element: unknown = JSON.parse(text);
        if (!Array.isArray(element)) this.#receive(element, at);
        else for (const message of element) this.#receive(message, at);
      } catch (error) {
        this.#onNonsense(error, text);
      }
    }
  }

  /** Separately, so that an error caused by one message does not stop the others. */
  #receive(message: unknown, at: number): void {
    try {
      const { id } = message as { id?: unknown };
      this.get(id)?.receive(message as Record<string, unknown>, at);
    } catch (error) {
      this.#onNonsense(error, JSON.stringify(message));
    }
  }
}
