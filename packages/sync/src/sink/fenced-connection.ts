/**
 * A connection on which every transaction is fenced: it is applied only if the checkpoint has not changed
 * since it was read.
 *
 *   opening:   WATCH keys, HGET epoch, HGET mark            -> checks the epoch and finds the last transaction
 *   execute:   MULTI ... HMSET mark ... EXEC, WATCH keys, HGET epoch, HGET mark      in one write
 *
 * The replies of the second line are awaited before the next transaction is sent, so each EXEC runs
 * under a WATCH whose values are known. This stops two kinds of writers:
 *
 * - Another run of the task. It incremented `epoch`, so the reply to this run's EXEC is nil.
 * - An earlier connection of this run. A transaction may still be in the buffers of an abandoned connection,
 *   and the server may read it after the same transaction was sent again. Its WATCH is older than the second
 *   EXEC, which changed the mark, so the reply is nil.
 *
 * There is one round trip per transaction. Throughput comes from large transactions and, while loading,
 * from several connections.
 */
import { LeaseLostError } from "@ropeway/core";
import { TargetRewoundError } from "../errors.ts";
import { ErrorReply, type Reply } from "../resp/reply-reader.ts";
import type { Connection } from "../wire/connection.ts";
import { encodeCommand } from "../wire/encode.ts";
import type { Transaction } from "./transaction.ts";

/** The keys that fence a connection. */
export interface Fence {
  readonly task: string;
  readonly epoch: number;
  /** Holds `epoch`. */
  readonly checkpointKey: string;
  /** Holds the mark that every transaction moves: the checkpoint key itself, or the key of a lane. */
  readonly markKey: string;
  readonly markField: string;
}

/** The outcome of a transaction. */
export type Outcome =
  /** Applied, except for the commands listed. */
  | {
      readonly kind: "applied";
      readonly errors: readonly CommandFailure[];
      /** The indexes of commands whose reply was 0. */
      readonly zeros: readonly number[];
    }
  /** Not applied: the server refused commands or the whole transaction. */
  | { readonly kind: "refused"; readonly errors: readonly CommandFailure[]; readonly reply: string }
  /** Not applied: the mark has moved since it was read. */
  | { readonly kind: "raced" };

/** A command that failed, by its index in the transaction. */
export interface CommandFailure {
  readonly index: number;
  readonly reply: string;
}

const MULTI = encodeCommand(["MULTI"]);
const EXEC = encodeCommand(["EXEC"]);

/** A connection whose transactions fail once a newer run has claimed the task. */
export class FencedConnection {
  readonly connection: Connection;
  readonly #fence: Fence;
  readonly #look: Buffer;
  #mark: string | undefined;

  private constructor(connection: Connection, fence: Fence) {
    this.connection = connection;
    this.#fence = fence;
    const { checkpointKey, markKey, markField } = fence;
    this.#look = Buffer.concat([
      encodeCommand(["WATCH", checkpointKey, markKey]),
      encodeCommand(["HGET", checkpointKey, "epoch"]),
      encodeCommand(["HGET", markKey, markField]),
    ]);
  }

  /** Takes over a connection in database 0. Rejects with LeaseLostError if a later run has claimed the task. */
  static async open(connection: Connection, fence: Fence): Promise<FencedConnection> {
    const fenced = new FencedConnection(connection, fence);
    fenced.#looked(await connection.exchange(fenced.#look, 3));
    return fenced;
  }

  /** The mark in the target, as last read. */
  get mark(): string | undefined {
    return this.#mark;
  }

  /** Applies the transaction and sets fields of the mark key, together. Otherwise returns the reason. */
  async execute(transaction: Transaction<unknown>, fields: readonly string[]): Promise<Outcome> {
    const body = transaction.encoded();
    const set = encodeCommand(["HMSET", this.#fence.markKey, ...fields]);
    const sent = [MULTI, ...body, Buffer.concat([set, EXEC, this.#look])];
    const commands = transaction.commands + 1;
    const replies = await this.connection.exchange(sent, commands + 5);
    const outcome = outcomeOf(replies, commands);
    try {
      this.#looked(replies.slice(commands + 2));
    } catch (error) {
      this.connection.destroy(); // the outcome is known; the next transaction needs a new connection
      const fenced = error instanceof LeaseLostError || error instanceof TargetRewoundError;
      if (fenced && outcome.kind !== "applied") throw error;
    }
    return outcome;
  }

  #looked([watched, epoch, mark]: Reply[]): void {
    for (const reply of [watched, epoch, mark]) {
      if (reply instanceof ErrorReply)
        throw new Error(`cannot read the checkpoint: ${reply.message}`);
    }
    const { task, epoch: own } = this.#fence;
    this.#mark = mark === null ? undefined : String(mark);
    if (Number(epoch) === own) return;
    this.connection.destroy();
    // Epochs only increase. A lower epoch, or none, belongs to an older copy of the data.
    if (Number(epoch) > own) throw new LeaseLostError(`sync task ${task}`, own);
    throw new TargetRewoundError(this.connection.where, `epoch ${own}`, show(epoch));
  }
}

function show(epoch: Reply | undefined): string | undefined {
  return epoch === null || epoch === undefined ? undefined : `epoch ${String(epoch)}`;
}

/** `replies` are the replies of MULTI, the commands, and EXEC. */
function outcomeOf(replies: readonly Reply[], commands: number): Outcome {
  const executed = replies[commands + 1];
  if (executed === null) return { kind: "raced" };
  if (executed instanceof ErrorReply) {
    return { kind: "refused", errors: failures(replies, 1, commands), reply: executed.message };
  }
  const answers = executed as readonly Reply[];
  return { kind: "applied", errors: failures(answers, 0, commands), zeros: zeros(answers) };
}

function zeros(replies: readonly Reply[]): number[] {
  const found: number[] = [];
  for (let index = 0; index < replies.length; index++) if (replies[index] === 0) found.push(index);
  return found;
}

function failures(replies: readonly Reply[], from: number, count: number): CommandFailure[] {
  const found: CommandFailure[] = [];
  for (let index = 0; index < count; index++) {
    const reply = replies[from + index];
    if (typeof reply === "object" && reply instanceof ErrorReply)
      found.push({ index, reply: reply.message });
  }
  return found;
}
