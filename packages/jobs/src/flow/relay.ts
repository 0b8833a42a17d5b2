/**
 * Delivers the messages in a queue's outbox to other queues: children to be added there, and outcomes for
 * parents there. A message is deleted only after it has arrived, and a second delivery changes nothing, so
 * a crash at any moment neither loses nor duplicates a job. Producers run the relay after they added a flow.
 * Workers run it when move.lua reports that messages are left.
 */
import { failureOf, InvalidFlowError, MalformedJobError } from "../errors.ts";
import { type ChildReport, QueueStore } from "../store/queue-store.ts";
import { type AddMessage, newJobOf } from "./flow.ts";

type Message = AddMessage | (ChildReport & { readonly kind: "child"; readonly queue: string });

/**
 * How long the other queue remembers that a message has arrived. It is less than the time for which move.lua keeps
 * the fields of `adds`.
 */
const REMEMBERED_MS = 30 * 60_000;

/** A page of a deleted queue has at most this number of jobs, or about this number of bytes. */
const PAGE_JOBS = 100;
const PAGE_BYTES = 1 << 20;

/** One queue's relay. */
export class Relay {
  readonly #store: QueueStore;
  readonly #targets = new Map<string, QueueStore>();
  readonly #onError: (error: unknown) => void;
  /** Where the last scan of the outbox ended: messages that cannot be delivered must not hide those behind them. */
  #cursor = "0";

  constructor(store: QueueStore, onError: (error: unknown) => void) {
    this.#store = store;
    this.#onError = onError;
  }

  /** Delivers the current messages. Messages that cannot be delivered stay. Returns how many were delivered. */
  async deliver(): Promise<number> {
    const { cursor, messages } = await this.#store.outbox(this.#cursor);
    this.#cursor = cursor;
    const now = messages.size > 0 ? await this.#store.now() : 0;
    const arrived: string[] = [];
    for (const [number, json] of messages) {
      try {
        const message = readMessage(json);
        if (message === undefined) this.#onError(new MalformedJobError(number, "it is no message"));
        else if (!(await this.#hasArrived(message, now))) await this.#carry(message);
        arrived.push(number);
      } catch (error) {
        this.#onError(error);
      }
    }
    await this.#store.delivered(arrived);
    return arrived.length;
  }

  /**
   * Whether a process delivered an old message and died before it removed it: its child has ended. If the
   * parent does not exist any more, the message is not needed either.
   */
  async #hasArrived(message: Message, now: number): Promise<boolean> {
    if (message.kind !== "add" || !(now - Number(message.at) > REMEMBERED_MS)) return false;
    return this.#store.childIsOver(message.flow, message.parent, message.child);
  }

  /**
   * Sends outcomes to parents in other queues, for children that ended here or that were deleted with the
   * queue.
   */
  async tellParents(): Promise<void> {
    let cursor = "0";
    do {
      const page = await this.#store.outbox(cursor, this.#store.keys.goneoutbox);
      cursor = page.cursor;
      for (const json of page.messages.values()) {
        const message = readMessage(json);
        if (message?.kind === "child") await this.#carry(message);
      }
    } while (cursor !== "0");
    let count = 1; // of jobs per page: as many as have about this number of bytes
    do {
      const page = await this.#store.orphans(cursor, count);
      cursor = page.cursor;
      count = Math.floor((count * PAGE_BYTES) / (page.bytes + 1));
      count = Math.max(1, Math.min(PAGE_JOBS, count));
      for (const json of page.messages) await this.#carry(JSON.parse(json) as Message);
    } while (cursor !== "0");
  }

  async #carry(message: Message): Promise<void> {
    const target = this.#target(message.queue);
    if (message.kind === "child") return target.recordChild(message);
    const { parent, child, flow, policy } = message;
    const producer = `${this.#store.name}#${flow}:${child}`;
    const call = { producer, number: 1, repeated: true, whole: true };
    const { other } = await target.add({ ...call, jobs: message.jobs.map(newJobOf) });
    if (other.size === 0) return;
    const [taken] = other.values();
    const error = new InvalidFlowError(`queue ${message.queue} has a job ${taken?.id} already`);
    const text = JSON.stringify(failureOf(error));
    await this.#store.recordChild({ parent, child, flow, policy, outcome: "f", text });
  }

  #target(queue: string): QueueStore {
    const known = this.#targets.get(queue);
    if (known !== undefined) return known;
    const target = new QueueStore(this.#store.redis, this.#store.prefix, queue);
    this.#targets.set(queue, target);
    return target;
  }
}

/** Decodes a message; undefined if it is malformed. A malformed message can never be delivered and is dropped. */
function readMessage(json: string): Message | undefined {
  try {
    const message = JSON.parse(json) as Partial<Message> | null;
    const { kind, queue } = message ?? {};
    if (typeof queue !== "string" || queue === "") return undefined;
    return kind === "add" || kind === "child" ? (message as Message) : undefined;
  } catch {
    return undefined; // reported by the caller
  }
}
