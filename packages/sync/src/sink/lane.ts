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
 *
 * A target that restarts from an older file, or whose replica takes over without the last writes, comes back
 * with an older mark. The lane remembers the last mark that was confirmed and rejects with
 * TargetRewoundError; the caller then reads the source again from where the target is.
 */
import {
  AbortedError,
  ClosedError,
  ConnectFailedError,
  ConnectionLostError,
  LeaseLostError,
} from "@ropeway/core";
import { Backoff, sleep } from "@ropeway/core/internal";
import { TargetRefusedError, TargetRewoundError } from "../errors.ts";
import type { Connection } from "../wire/connection.ts";
import { type CommandFailure, type Fence, FencedConnection } from "./fenced-connection.ts";
import type { Transaction } from "./transaction.ts";

/** The last mark that the target has confirmed. Lanes that move the same mark share it. */
export interface Confirmed {
  mark: string | undefined;
}

/** What a lane needs. */
export interface LaneOptions {
  readonly fence: Fence;
  /** @default a memory of its own */
  readonly confirmed?: Confirmed;
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
  /** It was applied, but its replies were lost, so that nobody knows which commands failed. */
  readonly lost?: boolean;
  readonly errors: readonly CommandFailure[];
  /** Commands that answered 0, by their index. */
  readonly zeros: readonly number[];
  /** Why it was refused; empty if it was applied. */
  readonly reply: string;
}

/** Refusals that end by themselves or when an operator helps. */
const FOR_NOW =
  /\b(OOM|MOVED|LOADING|MASTERDOWN|READONLY|MISCONF|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|BUSY)\b/;

/** Commits transactions one after another, each exactly once. */
export class Lane {
  readonly #options: LaneOptions;
  readonly #backoff = new Backoff({ baseMs: 20, maxMs: 1_000 });
  readonly #confirmed: Confirmed;
  #fenced: FencedConnection | undefined;
  #stalledAt: number | undefined;
  #closed = false;

  constructor(options: LaneOptions) {
    this.#options = options;
    this.#confirmed = options.confirmed ?? { mark: undefined };
  }

  /** Opens the connection and checks the epoch. */
  async open(): Promise<void> {
    await this.#connection(undefined);
  }

  /** Applies the transaction once; `mark` is what `fields` set the mark field to. */
  async commit(
    transaction: Transaction<unknown>,
    mark: string,
    fields: readonly string[],
  ): Promise<Committed> {
    for (let first = true; ; first = false) {
      const fenced = await this.#connection(mark);
      if (!first && fenced.mark === mark) {
        this.#confirmed.mark = mark;
        return { applied: true, lost: true, errors: [], zeros: [], reply: "" };
      }
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
        if (outcome.kind === "applied") this.#confirmed.mark = mark;
        const zeros = outcome.kind === "applied" ? outcome.zeros : [];
        return { applied: outcome.kind === "applied", errors: outcome.errors, zeros, reply };
      } catch (error) {
        if (!(error instanceof ConnectionLostError)) throw error;
        this.#fenced = undefined;
        this.#options.onStall(error.message);
      }
    }
  }

  /** Closes the connection permanently: a commit under way is rejected and not repeated. */
  close(): void {
    this.#closed = true;
    this.#disconnect();
  }

  #disconnect(): void {
    this.#fenced?.connection.destroy();
    this.#fenced = undefined;
  }

  /** The connection, opened anew as often as it takes; `mark` is that of a transaction under way. */
  async #connection(mark: string | undefined): Promise<FencedConnection> {
    const { signal, fence } = this.#options;
    while (this.#fenced === undefined || !this.#fenced.connection.alive) {
      if (signal.aborted) throw new AbortedError("writing to the target", signal.reason);
      if (this.#closed) throw new ClosedError("the lane");
      let connection: Connection | undefined;
      try {
        connection = await this.#options.connect();
        const opened = await FencedConnection.open(connection, fence);
        this.#expect(opened, mark);
        this.#fenced = opened;
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

  /** The target must have what it confirmed, or the transaction under way. */
  #expect({ mark: found, connection }: FencedConnection, mark: string | undefined): void {
    const { mark: expected } = this.#confirmed;
    if (expected === undefined || found === expected || found === mark) return;
    throw new TargetRewoundError(connection.where, expected, found);
  }

  async #stalled(reply: string): Promise<void> {
    const { stallMs, signal, fence } = this.#options;
    this.#stalledAt ??= performance.now();
    const waited = performance.now() - this.#stalledAt;
    const where = this.#fenced?.connection.where ?? fence.task;
    if (waited > stallMs) throw new TargetRefusedError(where, reply, Math.round(waited));
    this.#options.onStall(reply);
    // A master that became a replica stays one: ask again who the master is.
    if (/READONLY|MOVED/.test(reply)) this.#disconnect();
    await sleep(this.#backoff.next(), signal);
  }

  #moving(): void {
    this.#stalledAt = undefined;
    this.#backoff.reset();
  }
}

/** The reply that explains why a transaction was not applied; one that asks to wait comes before others. */
function refusal(outcome: { reply: string; errors: readonly CommandFailure[] }): string {
  const replies = outcome.errors.map(({ reply }) => reply);
  return replies.find((reply) => FOR_NOW.test(reply)) ?? replies[0] ?? outcome.reply;
}

/** Whether a connection that failed with this error may succeed later. */
function isPassing(error: unknown): boolean {
  if (error instanceof ConnectFailedError || error instanceof ConnectionLostError) return true;
  return (
    error instanceof Error &&
    /LOADING|MASTERDOWN|not the master|CLUSTERDOWN|MOVED/.test(error.message)
  );
}
