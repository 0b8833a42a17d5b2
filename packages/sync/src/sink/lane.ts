/**
 * A lane commits transactions to the target one after the other, each exactly once, whatever happens to
 * its connections.
 *
 *             .---- connection lost: open, look at the mark ----.
 *             v                                                 |
 *   commit -> is the mark the new one already? --no--> execute -+--> applied
 *             |                                                 |
 *             '-yes-> applied (its replies are lost)            +--> refused for now (OOM, LOADING, ...): wait
 *                                                               '--> refused: the caller drops a command
 */
import {
  AbortedError,
  ConnectFailedError,
  ConnectionLostError,
  LeaseLostError,
} from "@ropeway/core";
import { Backoff, sleep } from "@ropeway/core/internal";
import { TargetRefusedError } from "../errors.ts";
import type { Connection } from "../wire/connection.ts";
import { type CommandFailure, type Fence, FencedConnection } from "./fenced-connection.ts";
import type { Transaction } from "./transaction.ts";

/** What a lane needs. */
export interface LaneOptions {
  readonly fence: Fence;
  /** Opens a connection to the current master of the target. */
  connect(): Promise<Connection>;
  /** How long the target may refuse writes before the task gives up. */
  readonly stallMs: number;
  readonly signal: AbortSignal;
  /** Called when the target cannot be reached or refuses writes for now. */
  onStall(reason: string): void;
  /** Called with the time that a round trip took. */
  onRoundTrip?(ms: number): void;
}

/** What became of a committed transaction. */
export interface Committed {
  /** False: it was refused as a whole because of these commands. */
  readonly applied: boolean;
  readonly errors: readonly CommandFailure[];
  /** Why it was refused; empty if it was applied. */
  readonly reply: string;
}

/** Refusals that end by themselves or by somebody's help. */
const FOR_NOW =
  /\b(OOM|MOVED|LOADING|MASTERDOWN|READONLY|MISCONF|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|BUSY)\b/;

/** Commits transactions one after another, each exactly once. */
export class Lane {
  readonly #options: LaneOptions;
  readonly #backoff = new Backoff({ baseMs: 20, maxMs: 1_000 });
  #fenced: FencedConnection | undefined;
  #stalledAt: number | undefined;

  constructor(options: LaneOptions) {
    this.#options = options;
  }

  /** Opens the connection and checks the epoch. */
  async open(): Promise<void> {
    await this.#connection();
  }

  /** Applies the transaction once; `mark` is what `fields` set the mark field to. */
  async commit(
    transaction: Transaction<unknown>,
    mark: string,
    fields: readonly string[],
  ): Promise<Committed> {
    for (let first = true; ; first = false) {
      const fenced = await this.#connection();
      if (!first && fenced.mark === mark) return { applied: true, errors: [], reply: "" };
      try {
        const started = performance.now();
        const outcome = await fenced.execute(transaction, fields);
        this.#options.onRoundTrip?.(performance.now() - started);
        if (outcome.kind === "raced") continue; // by our own past: the epoch was checked
        const reply = outcome.kind === "applied" ? "" : refusal(outcome);
        if (FOR_NOW.test(reply)) {
          await this.#stalled(reply);
          continue;
        }
        this.#moving();
        return { applied: outcome.kind === "applied", errors: outcome.errors, reply };
      } catch (error) {
        if (!(error instanceof ConnectionLostError)) throw error;
        this.#fenced = undefined;
        this.#options.onStall(error.message);
      }
    }
  }

  close(): void {
    this.#fenced?.connection.destroy();
    this.#fenced = undefined;
  }

  /** The connection, opened anew as often as it takes. */
  async #connection(): Promise<FencedConnection> {
    const { signal, fence } = this.#options;
    while (this.#fenced === undefined || !this.#fenced.connection.alive) {
      if (signal.aborted) throw new AbortedError("writing to the target", signal.reason);
      let connection: Connection | undefined;
      try {
        connection = await this.#options.connect();
        this.#fenced = await FencedConnection.open(connection, fence);
        this.#backoff.reset();
      } catch (error) {
        connection?.destroy();
        if (error instanceof LeaseLostError || !isPassing(error)) throw error;
        this.#options.onStall((error as Error).message);
        await sleep(this.#backoff.next(), signal);
      }
    }
    return this.#fenced;
  }

  async #stalled(reply: string): Promise<void> {
    const { stallMs, signal, fence } = this.#options;
    this.#stalledAt ??= performance.now();
    const waited = performance.now() - this.#stalledAt;
    const where = this.#fenced?.connection.where ?? fence.task;
    if (waited > stallMs) throw new TargetRefusedError(where, reply, Math.round(waited));
    this.#options.onStall(reply);
    // A master that became a replica stays one: ask again who the master is.
    if (/READONLY|MOVED/.test(reply)) this.close();
    await sleep(this.#backoff.next(), signal);
  }

  #moving(): void {
    this.#stalledAt = undefined;
    this.#backoff.reset();
  }
}

/** The reply that explains why a transaction was not applied. */
function refusal(outcome: { reply: string; errors: readonly CommandFailure[] }): string {
  return outcome.errors[0]?.reply ?? outcome.reply;
}

/** Whether a connection that failed with this error may succeed later. */
function isPassing(error: unknown): boolean {
  if (error instanceof ConnectFailedError || error instanceof ConnectionLostError) return true;
  return (
    error instanceof Error &&
    /LOADING|MASTERDOWN|not the master|CLUSTERDOWN|MOVED/.test(error.message)
  );
}
