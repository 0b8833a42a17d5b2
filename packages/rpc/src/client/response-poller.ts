/**
 * Looks now and then under the documented key of calls whose answer should come in the reply list but
 * has not: a worker that knows only the documented keys, and is in no registry, may have taken one.
 * Each call is looked for after a quarter of a second, then at twice its age, and so on.
 */
import type { Redis } from "@ropeway/core";
import { RpcError } from "../errors.ts";
import type { Directory } from "../registry/directory.ts";
import { type TimerWheel, WheelEntry } from "../timer-wheel.ts";
import type { Dialect } from "../wire/dialect.ts";
import { PendingCall } from "./pending-call.ts";
import type { PendingTable } from "./pending-table.ts";
import type { ReplyReader } from "./reply-reader.ts";

/** How long a call waits before it is looked for. */
export const LOOK_EVERY_MS = 250;
const LOOK_AT_MOST = 500;

/** Of the desk, what a looker needs. */
export interface ResponsePollerHost {
  readonly redis: Redis;
  readonly dialect: Dialect;
  readonly directory: Directory;
  readonly inbox: ReplyReader;
  readonly wheel: TimerWheel;
}

/** See the top of the file. */
export class ResponsePoller extends WheelEntry {
  readonly #host: ResponsePollerHost;
  readonly #receivers: PendingTable;

  constructor(host: ResponsePollerHost, receivers: PendingTable) {
    super();
    this.#host = host;
    this.#receivers = receivers;
  }

  /** Looks as long as calls wait; a second start changes nothing. */
  start(): void {
    if (this.after === undefined) this.#host.wheel.set(this, LOOK_EVERY_MS);
  }

  stop(): void {
    this.#host.wheel.clear(this);
  }

  override due(): void {
    if (this.#receivers.size > 0) this.start();
    const late = this.#late();
    if (late.size === 0) return;
    const { inbox, directory, redis } = this.#host;
    inbox.look([...late.keys()]).then(
      (found) => {
        for (const [key, texts] of found) {
          const pending = late.get(key) as PendingCall;
          directory.notePlainWorker(pending.route.service);
          for (const text of texts) receiveAnswer(pending, text);
        }
      },
      (error) => redis.logger.debug({ err: error }, "cannot look for answers yet"),
    );
  }

  /** The calls to look for now, by their documented key; the oldest come first. */
  #late(): Map<string, PendingCall> {
    const now = performance.now();
    const late = new Map<string, PendingCall>();
    for (const receiver of this.#receivers) {
      if (!(receiver instanceof PendingCall) || receiver.extras.responseKey !== undefined) continue;
      if (now - receiver.sentAt < LOOK_EVERY_MS || late.size >= LOOK_AT_MOST) break;
      if (now < receiver.nextLookAt) continue;
      receiver.nextLookAt = now + (now - receiver.sentAt);
      late.set(this.#host.dialect.keys.response(receiver.route.method, receiver.id), receiver);
    }
    return late;
  }
}

/** Hands over an answer that came under a key of the call's own. */
export function receiveAnswer(pending: PendingCall, text: string): void {
  try {
    pending.receive(JSON.parse(text) as Record<string, unknown>, performance.now());
  } catch (error) {
    pending.fail(new RpcError("PARSE_ERROR", "the answer is not JSON", { cause: error }));
  }
}
