/**
 * The events of a queue, as a stream. It costs nothing without listeners: a listener announces
 * itself in `meta` (listen = until when) and renews this time. Scripts write events only before it.
 */
import type { Redis } from "@ropeway/core";
import {
  BackgroundRole,
  type BlockingConnection,
  Loop,
  type Opening,
  requireRedis,
} from "@ropeway/core/internal";
import type { AnyJobs, JobName, JobResult, JobTypes } from "../definition.ts";
import { type JobFailure, MalformedJobError } from "../errors.ts";
import { checkQueueName } from "../name.ts";
import { type QueueOptions, resolveQueueOptions } from "../options.ts";
import { decodeData } from "../record.ts";
import { EventStore, type StreamEntry } from "../store/event-store.ts";
import { QueueSite } from "../store/site.ts";
import { EventBuffer } from "./event-buffer.ts";

/** The fields that all events have. */
export interface EventHead<Name extends string> {
  readonly id: string;
  readonly name: Name;
  /** ms of the Redis clock. */
  readonly at: number;
  /** The value was longer than 4096 bytes and left out; read it with Queue.get(). */
  readonly truncated?: true;
}

/** A job completed; `result` has the type of its name. */
export type CompletedEvent<Jobs extends JobTypes<Jobs> = AnyJobs> = {
  readonly [N in JobName<Jobs>]: EventHead<N> & {
    readonly event: "completed";
    readonly result?: JobResult<Jobs, N>;
  };
}[JobName<Jobs>];

/** One event of a job. `event` is its name. */
export type QueueEvent<Jobs extends JobTypes<Jobs> = AnyJobs> =
  | (EventHead<JobName<Jobs>> & { readonly event: "added" })
  | (EventHead<JobName<Jobs>> & { readonly event: "stalled" })
  | (EventHead<JobName<Jobs>> & { readonly event: "removed" })
  | (EventHead<JobName<Jobs>> & { readonly event: "active"; readonly worker: string })
  | (EventHead<JobName<Jobs>> & { readonly event: "progress"; readonly value?: unknown })
  | (EventHead<JobName<Jobs>> & { readonly event: "log"; readonly line?: string })
  | (EventHead<JobName<Jobs>> & { readonly event: "retrying"; readonly error?: JobFailure })
  | (EventHead<JobName<Jobs>> & { readonly event: "failed"; readonly error?: JobFailure })
  | CompletedEvent<Jobs>;

/** The events of QueueEvents: each event under its own name, and all of them as "event". */
export type QueueEventMap<Jobs extends JobTypes<Jobs> = AnyJobs> = {
  [E in QueueEvent<Jobs>["event"]]: [event: Extract<QueueEvent<Jobs>, { readonly event: E }>];
} & { event: [event: QueueEvent<Jobs>]; error: [error: unknown] };

const LISTEN_MS = 60_000;
/** Renewed often, because Redis may have lost the announcement: the queue was obliterated, or Redis lost its data. */
const RENEW_MS = 5_000;
const BLOCK_MS = 5_000;

/**
 * Listens to the events of a queue, from start() until close(). Receive events with on(), or with
 * `for await (const event of events)`.
 */
export class QueueEvents<Jobs extends JobTypes<Jobs> = AnyJobs>
  extends BackgroundRole<QueueEventMap<Jobs>>
  implements AsyncIterable<QueueEvent<Jobs>>
{
  readonly queue: string;
  readonly #store: EventStore;
  readonly #buffers = new Set<EventBuffer<QueueEvent<Jobs>>>();
  #last = "0-0";

  constructor(redis: Redis, queue: string, options?: Pick<QueueOptions, "prefix">) {
    requireRedis(redis);
    checkQueueName(queue);
    super(`the events of queue ${queue}`, redis.logger);
    const { prefix } = resolveQueueOptions(options);
    this.queue = queue;
    this.#store = new EventStore(new QueueSite(redis, prefix, queue));
  }

  /** The events from now on. Ends when the listener is closed. */
  [Symbol.asyncIterator](): AsyncIterator<QueueEvent<Jobs>> {
    const buffer = new EventBuffer<QueueEvent<Jobs>>(() => this.#buffers.delete(buffer));
    if (this.closing.aborted) buffer.end();
    else this.#buffers.add(buffer);
    return buffer;
  }

  protected async open(opening: Opening): Promise<void> {
    const connection = await this.#store.connect();
    opening.defer(() => connection.close());
    await this.#store.listen(LISTEN_MS);
    this.#last = await this.#store.newest();
    const onError = (error: unknown) => this.report(error);
    const announcer = new Loop({ tick: () => this.#announce(), onError }).start();
    const onCut = (error: unknown) => {
      announcer.wake();
      onError(error);
    };
    const tick = (signal: AbortSignal) => this.#read(connection, signal);
    const reader = new Loop({ tick, onError: onCut }).start();
    opening.defer(async () => {
      await Promise.all([announcer.close(), reader.close()]);
      for (const buffer of this.#buffers) buffer.end();
    });
  }

  async #announce(): Promise<number> {
    await this.#store.listen(LISTEN_MS);
    return RENEW_MS;
  }

  async #read(connection: BlockingConnection, signal: AbortSignal): Promise<number> {
    const entries = await this.#store.read(connection, this.#last, { blockMs: BLOCK_MS, signal });
    // Ids are times. A stream that was deleted and written again after the clock was set back has smaller ones.
    if (entries.length === 0 && isBefore(await this.#store.newest(), this.#last))
      this.#last = "0-0";
    for (const entry of entries) {
      this.#last = entry.id;
      this.#tell(entry);
    }
    return 0;
  }

  #tell(entry: StreamEntry): void {
    if (this.held) return;
    let event: QueueEvent<Jobs>;
    try {
      event = readEvent(entry) as QueueEvent<Jobs>;
    } catch (error) {
      this.report(new MalformedJobError(entry.fields.get("id") ?? "", `its event: ${error}`));
      return;
    }
    for (const buffer of this.#buffers) buffer.push(event);
    const emit = this.emit.bind(this) as (name: string, event: QueueEvent<Jobs>) => void;
    emit("event", event);
    emit(event.event, event);
  }
}

/** Compares two ids of entries. */
function isBefore(a: string, b: string): boolean {
  const [[aMs = 0, aNumber = 0], [bMs = 0, bNumber = 0]] = [partsOf(a), partsOf(b)];
  return aMs < bMs || (aMs === bMs && aNumber < bNumber);
}

function partsOf(id: string): number[] {
  return id.split("-").map(Number);
}

/** Values are JSON, except a worker's id and a line of the log. */
function readEvent({ id, fields }: StreamEntry): QueueEvent {
  const event = fields.get("event") as QueueEvent["event"];
  const json = (field: string) => {
    const text = fields.get(field);
    return text === undefined ? {} : { [field]: decodeData(text) };
  };
  const plain = (name: string, field: string) => {
    const text = fields.get(field);
    return text === undefined ? {} : { [name]: text };
  };
  return {
    event,
    id: fields.get("id") ?? "",
    name: fields.get("name") ?? "",
    at: Number(id.split("-")[0]),
    ...plain("worker", "worker"),
    ...json("result"),
    ...json("error"),
    ...(event === "log" ? plain("line", "value") : json("value")),
    ...(fields.has("cut") ? { truncated: true as const } : {}),
  } as QueueEvent;
}
