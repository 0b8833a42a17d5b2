/**
 * A lane commits transactions to the target one after the other, each exactly once, even if
 * connections are lost.
 *
 *             .---- connection lost: open, read the mark -------.
 *             v                                                 |
 *   commit -> is the mark already the new one? --no--> execute -+--> applied
 *             |                                                 |
 *             '-yes-> applied (its replies are lost)            +--> refused for now (OOM, LOADING, ...): wait
 *                                                               '--> refused: the caller drops a command
 *
 * A target that restarts from an older file, or whose promoted replica lacks the last writes, has
 * an older mark. The lane remembers the last mark that was confirmed and rejects with
 * TargetRewoundError. The caller then reads the source again from the offset that the target has. A target that closes
 * the connection whenever it gets a transaction, because a value is too long for it, counts as one that refuses it.
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

/** The options of a lane. */
export interface LaneOptions {
  readonly fence: Fence;
  /** @default not shared */
  readonly confirmed?: Confirmed;
  /** Opens a connection to the current master of the target. */
  connect(): Promise<Connection>;
  /** How long the target may refuse writes before the task gives up. */
  readonly stallMs: number;
  readonly signal: AbortSignal;
  /** Called when the target is unreachable or refuses writes for now. */
  onStall(reason: string): void;
  /** Called with the time that a round trip took. */
  onRoundTrip?(ms: number): void;
}

/** The result of a committed transaction. */
export interface Committed {
  /** False if it was refused as a whole because of these commands. */
  readonly applied: boolean;
  /** It was applied, but its replies were lost, so the commands that failed are unknown. */
  readonly lost?: boolean;
  readonly errors: readonly CommandFailure[];
  /** The indexes of commands whose reply was 0. */
  readonly zeros: readonly number[];
  /** Why it was refused; empty if it was applied. */
  readonly reply: string;
}

/** Refusals that end by themselves or after an operator intervenes. */
const FOR_NOW =
  /\b(OOM|MOVED|LOADING|MASTERDOWN|READONLY|MISCONF|NOREPLICAS|CLUSTERDOWN|TRYAGAIN|BUSY)\b/;

/** After this many lost connections for one transaction, and after `stallMs`, the transaction is the cause. */
const MOST_LOSSES = 8;

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

  /** Applies the transaction once; `mark` is the value that `fields` gives the mark field. */
  async commit(
    transaction: Transaction<unknown>,
    mark: string,
    fields: readonly string[],
  ): Promise<Committed> {
    const losses = { count: 0, since: 0, backoff: new Backoff({ baseMs: 20, maxMs: 1_000 }) };
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
        if (outcome.kind === "raced") continue; // an earlier connection of this run moved the mark
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
        await this.#lost(fenced, losses);
      }
    }
  }

  /** Closes the connection permanently. A commit under way is rejected and not repeated. */
  close(): void {
    this.#closed = true;
    this.#disconnect();
  }

  #disconnect(): void {
    this.#fenced?.connection.destroy();
    this.#fenced = undefined;
  }

  /** The connection, reopened until that succeeds; `mark` is the mark of a transaction under way. */
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

  /** The target must have the mark that it confirmed, or that of the transaction under way. */
  #expect({ mark: found, connection }: FencedConnection, mark: string | undefined): void {
    const { mark: expected } = this.#confirmed;
    if (expected === undefined || found === expected || found === mark) return;
    throw new TargetRewoundError(connection.where, expected, found);
  }

  /** The first repetition is immediate, because most connections are lost for reasons of the network. */
  async #lost({ connection }: FencedConnection, losses: Losses): Promise<void> {
    const { stallMs, signal } = this.#options;
    losses.count += 1;
    if (losses.count === 1) losses.since = performance.now();
    if (losses.count === 1 || this.#closed) return;
    const waited = Math.round(performance.now() - losses.since);
    if (losses.count >= MOST_LOSSES && waited > stallMs) {
      throw new TargetRefusedError(connection.where, CLOSES, waited);
    }
    await sleep(losses.backoff.next(), signal);
  }

  async #stalled(reply: string): Promise<void> {
    const { stallMs, signal, fence } = this.#options;
    this.#stalledAt ??= performance.now();
    const waited = performance.now() - this.#stalledAt;
    const where = this.#fenced?.connection.where ?? fence.task;
    if (waited > stallMs) throw new TargetRefusedError(where, reply, Math.round(waited));
    this.#options.onStall(reply);
    // A master that became a replica stays one, so the master is looked up again.
    if (/READONLY|MOVED/.test(reply)) this.#disconnect();
    await sleep(this.#backoff.next(), signal);
  }

  #moving(): void {
    this.#stalledAt = undefined;
    this.#backoff.reset();
  }
}

/** The connections that were lost while one transaction was sent. */
interface Losses {
  count: number;
  since: number;
  readonly backoff: Backoff;
}

const CLOSES = "it closes the connection whenever it gets a certain batch";

/** The reply that explains why a transaction was not applied. A reply that asks to wait takes precedence. */
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
