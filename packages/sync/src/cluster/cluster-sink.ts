/**
 * Writes to a cluster. The checkpoint of the task is one key, in the slot of the task's name; what was
 * applied exactly is in the marks of the slots (see cluster-stream.ts). Each run claims all slots before
 * it writes, so an older run is refused by every one of them.
 *
 * The epoch of a slot is twice the epoch of the run, and one more while the stream is applied: a write of
 * the load that is still in the buffers of a lost connection must not arrive behind the stream.
 */
import type { Endpoint, Logger } from "@ropeway/core";
import type { StreamNote, StreamTarget } from "../apply/applier.ts";
import { type Checkpoint, checkpointFields } from "../checkpoint.ts";
import { keysOf } from "../command/keys.ts";
import { keySlot } from "../command/slot.ts";
import { bigKeysKey, checkpointKey, discardedKey } from "../keys.ts";
import { ErrorReply } from "../resp/reply-reader.ts";
import { type Abilities, probe } from "../sink/abilities.ts";
import { claimCheckpoint } from "../sink/claim.ts";
import { Lane } from "../sink/lane.ts";
import type { LoadWriterOptions, SnapshotWriter } from "../sink/load-writer.ts";
import type { KeyNote, Sink, TargetReader } from "../sink/sink.ts";
import { Transaction } from "../sink/transaction.ts";
import type { Connection } from "../wire/connection.ts";
import { encodeCommand } from "../wire/encode.ts";
import { ClusterLoad } from "./cluster-load.ts";
import { ClusterReader } from "./cluster-reader.ts";
import { ClusterStream, type Reread } from "./cluster-stream.ts";
import { ClusterNodes } from "./nodes.ts";
import { type SlotGroup, type SlotMark, SlotWriter } from "./slot-writer.ts";

/** How a cluster is written. */
export interface ClusterSinkOptions {
  readonly endpoint: Endpoint;
  readonly task: string;
  readonly batchBytes: number;
  readonly batchCommands: number;
  readonly stallMs: number;
  readonly connectTimeoutMs: number;
  readonly crossSlot: "split" | "stop";
  readonly signal: AbortSignal;
  readonly logger: Logger;
  onStall(reason: string | undefined): void;
  onRoundTrip(ms: number): void;
  admit(commands: number, bytes: number): Promise<void> | undefined;
  onFailure(note: StreamNote, reply: string): void;
  /** Reads keys of a shard of the source anew. */
  reread(shard: number, keys: readonly Buffer[]): Promise<Reread>;
  onClose(): void;
}

const RECORDS = 10_000;
const ROUNDS = 4;

/** A target that is a cluster. */
export class ClusterSink implements Sink {
  readonly #options: ClusterSinkOptions;
  readonly #nodes: ClusterNodes;
  readonly #marks = new Map<number, Map<number, SlotMark>>();

  constructor(options: ClusterSinkOptions) {
    this.#options = options;
    const { endpoint, connectTimeoutMs, signal, task } = options;
    this.#nodes = new ClusterNodes({
      ...{ endpoint, connectTimeoutMs, signal },
      name: `ropeway-sync:${task}`,
    });
  }

  get where(): string {
    return this.#nodes.where;
  }

  async probe(): Promise<Abilities> {
    await using connection = await this.#home();
    return { ...(await probe(connection, this.#options.task)), databases: 1 };
  }

  async claim(shard: number, epoch?: number): Promise<Checkpoint> {
    const { task } = this.#options;
    await using connection = await this.#home();
    const key = checkpointKey(task, shard);
    const isEmpty = () => this.#isEmpty();
    const claimed = await claimCheckpoint({ connection, task, key, epoch, isEmpty });
    const claiming = slotEpoch({ ...claimed, phase: "load" });
    this.#marks.set(shard, await this.#writer(shard).claim(claiming, "keep"));
    return claimed;
  }

  async enter(shard: number, checkpoint: Checkpoint): Promise<Checkpoint> {
    await this.#checkpoint(shard, checkpoint);
    // Marks of an earlier history say nothing about this one.
    const marks = await this.#writer(shard).claim(slotEpoch(checkpoint), "reset");
    this.#marks.set(shard, marks);
    return checkpoint;
  }

  async loader<N extends KeyNote>(
    shard: number,
    epoch: number,
    hooks: Pick<LoadWriterOptions<N>, "onFailure" | "complete">,
  ): Promise<{ writer: SnapshotWriter<N>; close(): void }> {
    const { batchBytes, batchCommands, admit } = this.#options;
    const writer = new ClusterLoad<N>({
      ...{ batchBytes, batchCommands, admit, ...hooks },
      epoch: slotEpoch({ epoch, phase: "load" }),
      writer: this.#writer(shard),
      ownSlot: this.#ownSlot,
      rounds: ROUNDS,
    });
    return { writer, close: () => {} };
  }

  stream(shard: number, checkpoint: Checkpoint): StreamTarget & { close(): void } {
    const { crossSlot, onFailure, reread } = this.#options;
    const stream = new ClusterStream({
      ...{ crossSlot, onFailure },
      writer: this.#writer(shard),
      epoch: slotEpoch({ ...checkpoint, phase: "stream" }),
      marks: this.#marks.get(shard) ?? new Map(),
      reread: (keys) => reread(shard, keys),
      everywhere: (argv, all) => this.#everywhere(argv, { all, shard, checkpoint }),
      checkpoint: (position) => this.#checkpoint(shard, { ...checkpoint, ...position }),
    });
    return {
      apply: (batch, position) => stream.apply(batch, position),
      finish: () => stream.finish(),
      close: () => {},
    };
  }

  async commit(
    shard: number,
    checkpoint: Checkpoint,
    batch: Transaction<StreamNote>,
  ): Promise<void> {
    const groups = new Map<
      number,
      SlotGroup & { commands: { argv: readonly Buffer[]; keys: Buffer[] }[] }
    >();
    for (const note of batch.notes) {
      if (note === undefined) continue;
      const keys = (keysOf(note.argv) ?? [1]).map((at) => note.argv[at] as Buffer);
      const slot = keySlot(keys[0] as Buffer);
      const group = groups.get(slot) ?? { slot, place: undefined, commands: [], holds: [] };
      groups.set(slot, group);
      group.commands.push({ argv: note.argv, keys });
    }
    // The list of held expiries is popped last: doing the rest twice does no harm.
    const own = [...groups.values()].filter(({ slot }) => slot === this.#ownSlot);
    const others = [...groups.values()].filter(({ slot }) => slot !== this.#ownSlot);
    for (const round of [others, own])
      await this.#writer(shard).apply(slotEpoch(checkpoint), round);
  }

  async reader(): Promise<TargetReader> {
    return new ClusterReader(this.#nodes);
  }

  async record(kind: "discarded" | "bigkey", entry: object): Promise<void> {
    const { task, logger } = this.#options;
    const key = kind === "discarded" ? discardedKey(task) : bigKeysKey(task);
    try {
      await using connection = await this.#home();
      await connection.call("LPUSH", key, JSON.stringify(entry));
      await connection.call("LTRIM", key, 0, RECORDS - 1);
    } catch (error) {
      logger.warn({ err: error, kind, entry }, "a record could not be written to the target");
    }
  }

  close(): void {
    this.#options.onClose();
    this.#nodes.close();
  }

  get #ownSlot(): number {
    return keySlot(Buffer.from(checkpointKey(this.#options.task, 0)));
  }

  /** A connection to the master that has the task's own keys. */
  async #home(): Promise<Connection> {
    await this.#nodes.refresh();
    return this.#nodes.open(await this.#nodes.addressOf(this.#ownSlot));
  }

  #writer(shard: number): SlotWriter {
    const { task, stallMs, signal, onStall, onRoundTrip } = this.#options;
    return new SlotWriter({
      nodes: this.#nodes,
      task,
      shard,
      stallMs,
      signal,
      onStall,
      onRoundTrip,
    });
  }

  /** Writes the checkpoint if no newer run has claimed it. */
  async #checkpoint(shard: number, checkpoint: Checkpoint): Promise<void> {
    const { epoch } = checkpoint;
    const { task, stallMs, signal, onStall } = this.#options;
    const key = checkpointKey(task, shard);
    const fence = { task, epoch, checkpointKey: key, markKey: key, markField: "offset" };
    const lane = new Lane({ fence, connect: () => this.#home(), stallMs, signal, onStall });
    try {
      await lane.commit(new Transaction(), String(checkpoint.offset), checkpointFields(checkpoint));
      onStall(undefined);
    } finally {
      lane.close();
    }
  }

  /** Runs a command without keys on all masters, or on one; an error reply, if there is one. */
  async #everywhere(
    argv: readonly Buffer[],
    { all, shard, checkpoint }: { all: boolean; shard: number; checkpoint: Checkpoint },
  ): Promise<string | undefined> {
    const masters = await this.#nodes.masters();
    let failure: string | undefined;
    for (const { address } of all ? masters : masters.slice(0, 1)) {
      const node = await this.#nodes.at(address);
      const [reply] = await node.exchange(encodeCommand(argv), 1);
      if (reply instanceof ErrorReply) failure = reply.message;
    }
    if (/^FLUSH/i.test(String(argv[0]))) {
      // Our own keys are gone too.
      await using connection = await this.#home();
      await connection.call(
        "HMSET",
        checkpointKey(this.#options.task, shard),
        ...checkpointFields(checkpoint),
      );
      await this.#writer(shard).claim(slotEpoch(checkpoint), "keep");
    }
    return failure;
  }

  async #isEmpty(): Promise<boolean> {
    for (const { address } of await this.#nodes.masters()) {
      const node = await this.#nodes.at(address);
      if (Number(await node.call("DBSIZE")) > 0) return false;
    }
    return true;
  }
}

function slotEpoch({ epoch, phase }: Pick<Checkpoint, "epoch" | "phase">): number {
  return 2 * epoch + (phase === "load" ? 0 : 1);
}
