/**
 * A watch that loses nothing. One stream after the other, each from where the last one stopped:
 *
 *   stream from `next` ---- events ----> next = revision of the last event + 1
 *      ^     |     '------- progress --> next = header revision + 1 (etcd says: nothing before it)
 *      |     '--- ended: pause, next member
 *      '---------'
 *
 * `next` never comes from the header of a "created" response or of a batch of events: while etcd replays
 * history it stamps batches with the present revision, and resuming there would skip the rest.
 *
 * etcd takes a watch from a revision that is still to come, and is silent until it comes. After a restore
 * from a backup that would be for long, so it counts as history that is gone. A member that lags behind
 * the others is recognised by asking all of them.
 */
import type { Logger } from "@ropeway/core";
import { Backoff, reasonOf } from "@ropeway/core/internal";
import { CompactedError, StoreRefusedError } from "../../errors.ts";
import { endOfPrefix } from "../limits.ts";
import type { WatchEvent, WatchOptions } from "../store.ts";
import type { GrpcStream } from "./channel.ts";
import { entryOf, isUsable } from "./entry.ts";
import { GrpcError, Status } from "./grpc-error.ts";
import { type Event, WatchRequest, WatchResponse } from "./messages.ts";
import type { Transport } from "./transport.ts";

/** What a watch needs. */
export interface EtcdWatchPlan extends WatchOptions {
  /** The newest revision of the whole etcd, not of one member. */
  revision(): Promise<number>;
  readonly transport: Transport;
  readonly logger: Logger;
}

const PATH = "/etcdserverpb.Watch/Watch";

/** Yields the events of each response. */
export async function* watchEtcd(plan: EtcdWatchPlan): AsyncGenerator<readonly WatchEvent[]> {
  const { signal, transport, logger, prefix } = plan;
  const backoff = new Backoff({ baseMs: 50, maxMs: 2_000 });
  let next = plan.from;
  while (!signal.aborted) {
    const inbox = new Inbox(signal);
    try {
      const stream = await transport.stream(PATH, inbox);
      inbox.opened(stream, createRequest(prefix, next));
      for await (const response of inbox) {
        if (response.compactRevision > 0n) {
          throw new CompactedError(next, Number(response.compactRevision));
        }
        if (response.canceled) throw canceled(transport, response.cancelReason);
        backoff.reset();
        if (response.created && revisionOf(response) + 1 < next) {
          const newest = await plan.revision();
          if (newest + 1 < next) throw new CompactedError(next, newest + 1);
        }
        const last = response.events.at(-1);
        if (last !== undefined) {
          const events = response.events.filter(({ kv }) => !kv || isUsable(kv)).map(eventOf);
          if (events.length > 0) yield events;
          next = Number(last.kv?.modRevision ?? 0n) + 1;
        } else if (!response.created) {
          next = Math.max(next, revisionOf(response) + 1);
        }
      }
    } catch (error) {
      if (error instanceof CompactedError || error instanceof StoreRefusedError) throw error;
      if (signal.aborted) return;
      if (error instanceof GrpcError && error.needsLogin) transport.forgetToken();
      logger.debug({ err: reasonOf(error), prefix, next }, "a watch is opened again");
      await inbox.pause(backoff.next());
    } finally {
      inbox.close();
    }
  }
}

function revisionOf({ header }: WatchResponse): number {
  return Number(header?.revision ?? 0n);
}

function createRequest(prefix: string, from: number): Buffer {
  const rangeEnd = prefix.endsWith("/") ? endOfPrefix(prefix) : "";
  return WatchRequest.encode({
    createRequest: {
      key: prefix,
      rangeEnd,
      startRevision: BigInt(from),
      progressNotify: true,
    },
  });
}

/** etcd cancels a watch for a reason: a missing permission is final, an old token is not. */
function canceled(transport: Transport, reason: string): Error {
  if (/permission denied/.test(reason)) return new StoreRefusedError(transport.where, reason);
  return new GrpcError(Status.unauthenticated, reason || "the watch was cancelled", true);
}

function eventOf({ type, kv }: Event): WatchEvent {
  if (kv === undefined) throw new GrpcError(Status.unavailable, "an event without a key", true);
  return { type: type === 1 ? "delete" : "put", entry: entryOf(kv) };
}

/** Responses of one stream, in order, for one reader. */
class Inbox implements AsyncIterable<WatchResponse> {
  readonly #signal: AbortSignal;
  readonly #responses: WatchResponse[] = [];
  readonly #onAbort = () => this.#wakeUp();
  #stream: GrpcStream | undefined;
  #failure: unknown;
  #wake: (() => void) | undefined;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener("abort", this.#onAbort);
  }

  opened(stream: GrpcStream, request: Buffer): void {
    this.#stream = stream;
    stream.send(request);
  }

  message(bytes: Buffer): void {
    this.#responses.push(WatchResponse.decode(bytes));
    this.#wakeUp();
  }

  ended(error: GrpcError): void {
    this.#failure ??= error;
    this.#wakeUp();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WatchResponse> {
    while (!this.#signal.aborted) {
      const response = this.#responses.shift();
      if (response !== undefined) yield response;
      else if (this.#failure !== undefined) throw this.#failure;
      else await this.#wait();
    }
  }

  /** A pause that the signal ends. */
  async pause(ms: number): Promise<void> {
    const timer = setTimeout(() => this.#wakeUp(), ms);
    await this.#wait();
    clearTimeout(timer);
  }

  close(): void {
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#stream?.cancel();
  }

  #wait(): Promise<void> {
    if (this.#signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #wakeUp(): void {
    this.#wake?.();
    this.#wake = undefined;
  }
}
