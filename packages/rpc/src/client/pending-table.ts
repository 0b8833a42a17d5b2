/**
 * All receivers of a client, by the id that they wait for, and how elements of the reply list reach them. An
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

  /** In the order in which they began to wait. */
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

  /** Whether the id is that of a call of this client which nobody waits for any more. */
  isOver(id: unknown): boolean {
    const number = this.ids.numberOf(id);
    return number >= 0 && !this.#waiting.has(number);
  }

  has(receiver: Receiver): boolean {
    return this.#waiting.get(receiver.number) === receiver;
  }

  /** Hands out what was popped from the reply list. */
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

  /** On its own: what one message causes must not keep the others from arriving. */
  #receive(message: unknown, at: number): void {
    try {
      const { id } = message as { id?: unknown };
      this.get(id)?.receive(message as Record<string, unknown>, at);
    } catch (error) {
      this.#onNonsense(error, JSON.stringify(message));
    }
  }
}
