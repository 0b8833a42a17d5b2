/**
 * Reads from time to time the documented key of calls whose response should come in the reply list but has
 * not: a worker that supports only the documented keys, and is not in the registry, may have taken one. Each
 * call is checked after a quarter of a second, then at twice its age, and so on.
 */
import type { Redis } from "@ropeway/core";
import type { Directory } from "../registry/directory.ts";
import type { CallStore } from "../store/call-store.ts";
import { type TimerWheel, WheelEntry } from "../timer-wheel.ts";
import type { Dialect } from "../wire/dialect.ts";
import type { Receiver } from "./pending-call.ts";
import type { PendingTable } from "./pending-table.ts";
import { receiveText } from "./receive-text.ts";

/** How long a call waits before its key is checked. */
const POLL_AFTER_MS = 250;
const POLLED_AT_MOST = 500;

/** What a poller needs from its client. */
export interface ResponsePollerHost {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly directory: Directory;
  readonly store: CallStore;
  readonly wheel: TimerWheel;
}

/** Finds the responses of workers that do not use reply lists. */
export class ResponsePoller extends WheelEntry {
  readonly #host: ResponsePollerHost;
  readonly #pending: PendingTable;

  constructor(host: ResponsePollerHost, pending: PendingTable) {
    super();
    this.#host = host;
    this.#pending = pending;
  }

  /** Polls as long as calls wait. A second start has no effect. */
  start(): void {
    if (this.after === undefined) this.#host.wheel.set(this, POLL_AFTER_MS);
  }

  stop(): void {
    this.#host.wheel.clear(this);
  }

  override due(): void {
    if (this.#pending.size > 0) this.start();
    const late = this.#late();
    if (late.size === 0) return;
    const { store, directory, redis } = this.#host;
    store.collect([...late.keys()]).then(
      (found) => {
        for (const [key, texts] of found) {
          const receiver = late.get(key) as Receiver;
          directory.notePlainWorker(receiver.route.service);
          for (const text of texts) receiveText(receiver, text);
        }
      },
      (error) => redis.logger.debug({ err: error }, "cannot check for responses yet"),
    );
  }

  /** The calls to check now, by their documented key; the oldest come first. */
  #late(): Map<string, Receiver> {
    const now = performance.now();
    const late = new Map<string, Receiver>();
    for (const receiver of this.#pending) {
      if (!receiver.polled) continue;
      if (now - receiver.sentAt < POLL_AFTER_MS || late.size >= POLLED_AT_MOST) break;
      if (now < receiver.nextPollAt) continue;
      receiver.nextPollAt = now + (now - receiver.sentAt);
      late.set(this.#host.dialect.keys.response(receiver.route.method, receiver.id), receiver);
    }
    return late;
  }
}
