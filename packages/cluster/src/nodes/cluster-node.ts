/**
 * A node: registers under its id, reports its load, runs the tasks that are placed on it, and stops
 * them by itself when it can no longer be sure that it is allowed to run them.
 *
 *   start -> registered ---- lease lost: every run stops ----> register again, look at the tasks anew
 *                '---------- close: runs stop, are released, and the lease is revoked
 */

import { type EventMap, silentLogger } from "@ropeway/core";
import { BackgroundRole, Loop, type Opening, reasonOf, within } from "@ropeway/core/internal";
import { NodeIdTakenError } from "../errors.ts";
import { type NodeOptions, resolveNodeOptions } from "../options.ts";
import { CLOSE_WITHIN_MS } from "../store/limits.ts";
import { requireStore } from "../store/require-store.ts";
import type { Store } from "../store/store.ts";
import { TaskRecords } from "../tasks/task-records.ts";
import { Registration } from "./registration.ts";
import { TaskHost } from "./task-host.ts";

/** The events of a node. */
export interface NodeEvents extends EventMap {
  /** It is registered, the first time or again. */
  registered: [];
  /** Its lease was lost; every run is being stopped. */
  lost: [];
  /** A run began. */
  run: [taskId: string, epoch: number];
  /** A run ended, for any reason. */
  end: [taskId: string, epoch: number];
}

/** A node that runs tasks until it is closed. */
export class ClusterNode extends BackgroundRole<NodeEvents> {
  readonly id: string;
  readonly #store: Store;
  readonly #options: ReturnType<typeof resolveNodeOptions>;
  #registration: Registration | undefined;
  #host: TaskHost | undefined;
  /** The lease that was lost last. It is not used any more. */
  #former: string | undefined;
  /** Whether it was logged that another process has the id. */
  #warned = false;

  constructor(store: Store, options: NodeOptions) {
    requireStore(store);
    const resolved = resolveNodeOptions(options);
    super("the node", resolved.logger ?? silentLogger);
    this.id = resolved.id;
    this.#store = store;
    this.#options = resolved;
  }

  /** Tasks running here at the moment. */
  get running(): number {
    return this.#host?.size ?? 0;
  }

  /** Whether the node holds its lease. */
  get registered(): boolean {
    return this.#registration?.session.alive ?? false;
  }

  protected async open({ defer }: Opening): Promise<void> {
    await this.#join();
    const membership = new Loop({
      tick: (signal) => this.#stayIn(signal),
      onError: (error) => this.report(error),
      backoff: { baseMs: 250, maxMs: 2_000 },
      closeWithinMs: CLOSE_WITHIN_MS,
    });
    defer(() => this.#leave("closing"));
    defer(() => membership.close());
    membership.start();
  }

  async #join(): Promise<void> {
    const { logger = silentLogger, runners, ...options } = this.#options;
    const registration = await Registration.open({
      ...options,
      store: this.#store,
      type: "redissyncer",
      types: runners.map(({ type }) => type),
      logger,
      tasks: () => this.running,
    });
    // The store responded after close() had stopped waiting.
    if (this.closing.aborted) return registration.close();
    this.#registration = registration;
    this.#host = new TaskHost({
      ...options,
      store: this.#store,
      session: registration.session,
      records: new TaskRecords(this.#store),
      nodeId: this.id,
      runners,
      logger,
      isHeld: () => this.held,
      onRun: (taskId, epoch) => this.emit("run", taskId, epoch),
      onEnd: (taskId, epoch) => this.emit("end", taskId, epoch),
    });
    this.#host.start();
    this.#warned = false;
    this.emit("registered");
  }

  /** Waits for the loss of the lease, then starts over. */
  async #stayIn(signal: AbortSignal): Promise<number> {
    const session = this.#registration?.session;
    if (session?.alive) {
      await lossOf(session.signal, signal);
      if (signal.aborted) return 0;
    }
    if (this.#registration !== undefined) {
      this.#former = this.#registration.session.lease;
      this.emit("lost");
      await this.#leave("lost");
    }
    try {
      await this.#join();
    } catch (error) {
      if (!(error instanceof NodeIdTakenError)) throw error;
      await this.#waitForId(error);
      return 500;
    }
    return 0;
  }

  /** The id is taken, perhaps by our own earlier record: the store was unreachable when its lease was to be revoked. */
  async #waitForId(error: NodeIdTakenError): Promise<void> {
    const { logger = silentLogger } = this.#options;
    if (this.#former !== undefined) {
      logger.debug({ err: reasonOf(error) }, "the node waits for its old lease to end");
      await this.#store.revoke(this.#former);
      this.#former = undefined;
      return;
    }
    const level = this.#warned ? "debug" : "warn";
    logger[level]({ err: reasonOf(error) }, "another process has the node's id: the node waits");
    this.#warned = true;
  }

  async #leave(reason: "lost" | "closing"): Promise<void> {
    const [host, registration] = [this.#host, this.#registration];
    this.#host = undefined;
    this.#registration = undefined;
    await host?.close(reason);
    await within(registration?.close() ?? Promise.resolve(), { timeoutMs: 5_000 });
  }
}

function lossOf(lost: AbortSignal, closing: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const either = AbortSignal.any([lost, closing]);
    if (either.aborted) resolve();
    else either.addEventListener("abort", () => resolve(), { once: true });
  });
}
