/**
 * What happens in a queue, as a stream. Nobody pays for it while nobody listens: a listener announces
 * itself in `meta` (listen = until when) and renews that; scripts write events only before that time.
 */
import { EventEmitter } from "node:events";
import { type BlockingConnection, Loop } from "@ropeway/core/internal";
import { decodeData } from "./record.ts";
import { pairsOf } from "./scripts.ts";
import type { QueueStore } from "./store.ts";

/** One thing that happened to a job. */
export interface QueueEvent {
  readonly event:
    | "added"
    | "active"
    | "progress"
    | "log"
    | "completed"
    | "retrying"
    | "failed"
    | "stalled"
    | "removed";
  readonly id: string;
  /** ms of the Redis clock. */
  readonly at: number;
  /** Which worker took it. */
  readonly worker?: string;
  readonly result?: unknown;
  readonly error?: unknown;
  /** Progress, or a line of the log. */
  readonly value?: unknown;
}

const LISTEN_MS = 60_000;
const RENEW_MS = 20_000;
const BLOCK_MS = 5_000;

/** Emits "event" for each QueueEvent, and the event's own name too. */
export class QueueEvents extends EventEmitter implements AsyncDisposable {
  readonly #store: QueueStore;
  readonly #connection: BlockingConnection;
  readonly #reader: Loop;
  readonly #announcer: Loop;
  #last = "0-0";

  private constructor(store: QueueStore, connection: BlockingConnection) {
    super();
    this.#store = store;
    this.#connection = connection;
    const onError = (error: unknown) =>
      store.redis.logger.warn({ err: error, queue: store.name }, "cannot read job events");
    this.#reader = new Loop({ tick: (signal) => this.#read(signal), onError });
    this.#announcer = new Loop({ tick: () => this.#announce(), onError });
  }

  /** Listens from now on. */
  static async open(store: QueueStore): Promise<QueueEvents> {
    const connection = await store.redis.blocking("jobs-events", store.keys.events);
    const events = new QueueEvents(store, connection);
    await events.#announce();
    const newest = await store.send<readonly (readonly [string])[]>(
      "XREVRANGE",
      store.keys.events,
      "+",
      "-",
      "COUNT",
      "1",
    );
    events.#last = newest[0]?.[0] ?? "0-0";
    events.#announcer.start();
    events.#reader.start();
    return events;
  }

  async close(): Promise<void> {
    await Promise.all([this.#announcer.close(), this.#connection.close()]);
    await this.#reader.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #announce(): Promise<number> {
    const until = (await this.#store.now()) + LISTEN_MS;
    await this.#store.send("HSET", this.#store.keys.meta, "listen", String(until));
    return RENEW_MS;
  }

  async #read(signal: AbortSignal): Promise<number> {
    const { events } = this.#store.keys;
    const command = [
      "XREAD",
      "COUNT",
      "200",
      "BLOCK",
      String(BLOCK_MS),
      "STREAMS",
      events,
      this.#last,
    ];
    const reply = await this.#connection.send<readonly (readonly [string, Entries])[]>(command, {
      blockMs: BLOCK_MS,
      signal,
    });
    for (const [id, fields] of reply?.[0]?.[1] ?? []) {
      this.#last = id;
      this.#tell(id, pairsOf(fields));
    }
    return 0;
  }

  #tell(entry: string, fields: ReadonlyMap<string, string>): void {
    const json = (name: string) => {
      const text = fields.get(name);
      return text === undefined ? {} : { [name]: decodeData(text) };
    };
    const value = fields.get("value") ?? "";
    const name = fields.get("event") as QueueEvent["event"];
    const worker = fields.get("worker");
    const event: QueueEvent = {
      event: name,
      id: fields.get("id") ?? "",
      at: Number(entry.split("-")[0]),
      ...(worker === undefined ? {} : { worker }),
      ...json("result"),
      ...json("error"),
      ...(name === "progress" ? { value: decodeData(value) } : {}),
      ...(name === "log" ? { value } : {}),
    };
    this.emit("event", event);
    this.emit(event.event, event);
  }
}

type Entries = readonly (readonly [string, readonly string[]])[];
