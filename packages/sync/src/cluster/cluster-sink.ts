/**
 * Writes to a cluster. The checkpoint of the task is one key, in the slot of the task's name. The marks of the
 * slots record exactly what was applied (see cluster-stream.ts). Each run claims all slots before
 * it writes, so every slot refuses an older run.
 *
 * The epoch of a slot combines the epoch of the run with the number of the pass; each load and
 * each stream is one pass. A write of the load that is still in the buffers of a lost connection must not arrive
 * after the stream has begun.
 */
import { randomBytes } from "node:crypto";
import { ConnectFailedError, ConnectionLostError, type Endpoint, type Logger } from "@ropeway/core";
import { Backoff, showAddress, sleep } from "@ropeway/core/internal";
import type { StreamNote, StreamTarget } from "../apply/applier.ts";
import { restoreFor } from "../apply/restore-for.ts";
import { type Checkpoint, checkpointFields } from "../checkpoint.ts";
import { keysOf } from "../command/keys.ts";
import { keySlot } from "../command/slot.ts";
import { TargetRewoundError } from "../errors.ts";
import { checkpointKey, isOwnKey } from "../keys.ts";
import { ErrorReply } from "../resp/reply-reader.ts";
import { type Abilities, probe } from "../sink/abilities.ts";
import { claimCheckpoint } from "../sink/claim.ts";
import { Lane } from "../sink/lane.ts";
import type { LoadWriterOptions, SnapshotWriter } from "../sink/load-writer.ts";
import { type RecordKind, storeRecords } from "../sink/records.ts";
import { singleMark } from "../sink/redis-sink.ts";
import type { KeyNote, Sink, TargetReader } from "../sink/sink.ts";
import { Transaction } from "../sink/transaction.ts";
import type { Connection } from "../wire/connection.ts";
import { encodeCommand } from "../wire/encode.ts";
import { ClusterLoad } from "./cluster-load.ts";
import { ClusterReader } from "./cluster-reader.ts";
import { ClusterStream, type Reread } from "./cluster-stream.ts";
import { ClusterNodes, type NodesOptions } from "./nodes.ts";
import {
  isAfter,
  type SlotGroup,
  type SlotMark,
  SlotWriter,
  type StreamPlace,
} from "./slot-writer.ts";

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
  /** See wire/off-limits.ts. */
  readonly keepOff?: readonly string[] | undefined;
  readonly logger: Logger;
  onStall(reason: string | undefined): void;
  onRoundTrip(ms: number): void;
  admit(commands: number, bytes: number): Promise<void> | undefined;
  /** Called for each command of a shard's stream that failed. */
  onFailure(shard: number, note: StreamNote, reply: string): void;
  /** Reads keys of a shard of the source again. */
  reread(shard: number, keys: readonly Buffer[]): Promise<Reread>;
  onClose(): void;
}

const ROUNDS = 4;
/** The maximum number of loads and streams in one run. */
const MOST_PASSES = 1_000_000;
/** The number of keys that one SCAN examines. */
const SCANNED = 1_000;

/** A target that is a cluster. */
export class ClusterSink implements Sink {
  readonly #options: ClusterSinkOptions;
  readonly #nodes: ClusterNodes;
  readonly #marks = new Map<number, Map<number, SlotMark>>();
  /** The places that the slots have confirmed, by shard; see claim(). */
  readonly #confirmed = new Map<number, Confirmations>();
  #abilities: Abilities | undefined;
  /** The loads and streams of this run, by shard. */
  readonly #passes = new Map<number, number>();
  /** The number of connection losses that were audited, by shard. */
  readonly #audited = new Map<number, number>();

  constructor(options: ClusterSinkOptions) {
    this.#options = options;
    this.#nodes = new ClusterNodes({ ...this.#plan, signal: options.signal });
  }

  get where(): string {
    return this.#nodes.where;
  }

  get #plan(): NodesOptions {
    const { endpoint, connectTimeoutMs, keepOff, task } = this.#options;
    return { endpoint, connectTimeoutMs, keepOff, name: `ropeway-sync:${task}` };
  }

  async probe(): Promise<Abilities> {
    await using connection = await this.#home();
    this.#abilities = { ...(await probe(connection, this.#options.task)), databases: 1 };
    return this.#abilities;
  }

  async claim(shard: number, epoch?: number): Promise<Checkpoint> {
    const { task } = this.#options;
    await using connection = await this.#home();
    const key = checkpointKey(task, shard);
    const isEmpty = () => this.#isEmpty();
    const found = await claimCheckpoint({ connection, task, key, epoch, isEmpty });
    // A checkpoint that was lost with its node may be older than what this run knows.
    const pass = Math.max(found.pass ?? 0, (this.#passes.get(shard) ?? -1) + 1);
    this.#passes.set(shard, pass);
    const claimed = { ...found, pass };
    const marks = await this.#writer(shard).claim(this.#slotEpoch(shard, claimed), "keep");
    this.#marks.set(shard, marks);
    const lost = this.#lostSince(shard, marks);
    this.#confirmed.delete(shard);
    if (lost.length === 0) return claimed;
    // For slots that lost writes, the stream is read again from their offset; the other slots skip what they have.
    return { ...claimed, offset: Math.min(claimed.offset, ...lost.map(({ from }) => from)) };
  }

  /** Values that were read again, rewritten for the target, which may be older than the source. */
  #adapted({ offset, writes }: Reread): Reread {
    const abilities = this.#abilities;
    if (abilities === undefined) return { offset, writes };
    const adapt = (argv: readonly Buffer[]): readonly (readonly Buffer[])[] => {
      if (String(argv[0]) !== "RESTORE") return [argv];
      const commands = restoreFor(abilities, argv) ?? [argv];
      return commands.map((words) =>
        words.map((word) => (Buffer.isBuffer(word) ? word : Buffer.from(String(word)))),
      );
    };
    return {
      offset,
      writes: new Map(Array.from(writes, ([key, commands]) => [key, commands.flatMap(adapt)])),
    };
  }

  /** The marks of slots that have less than they confirmed to this run. */
  #lostSince(shard: number, marks: ReadonlyMap<number, SlotMark>): SlotMark[] {
    const { slots, from } = this.#confirmedBy(shard);
    return Array.from(slots).flatMap(([slot, place]) => {
      const mark = marks.get(slot);
      if (mark === undefined || !isAfter(place, mark)) return [];
      return [mark.offset < 0 ? { ...mark, from } : mark];
    });
  }

  #confirmedBy(shard: number): Confirmations {
    const known = this.#confirmed.get(shard) ?? { slots: new Map(), from: 0 };
    this.#confirmed.set(shard, known);
    return known;
  }

  /** After a lost connection or a new master, checks that every slot has what it confirmed. */
  async #audit(shard: number, checkpoint: Checkpoint): Promise<void> {
    const { losses } = this.#nodes;
    if (this.#audited.get(shard) === losses) return;
    const marks = await this.#writer(shard).claim(this.#slotEpoch(shard, checkpoint), "keep");
    const [lost] = this.#lostSince(shard, marks);
    if (lost !== undefined) {
      throw new TargetRewoundError(this.where, "what its slots confirmed", `offset ${lost.offset}`);
    }
    this.#audited.set(shard, losses);
  }

  async enter(shard: number, checkpoint: Checkpoint): Promise<Checkpoint> {
    const pass = (this.#passes.get(shard) ?? 0) + 1;
    this.#passes.set(shard, pass);
    const entered = { ...checkpoint, pass };
    await this.#checkpoint(shard, entered);
    // Marks of an earlier history say nothing about this one.
    const marks = await this.#writer(shard).claim(this.#slotEpoch(shard, entered), "reset");
    this.#marks.set(shard, marks);
    return entered;
  }

  async loader<N extends KeyNote>(
    shard: number,
    epoch: number,
    hooks: Pick<LoadWriterOptions<N>, "onFailure" | "noteOf" | "complete">,
  ): Promise<{ writer: SnapshotWriter<N>; close(): void }> {
    const { batchBytes, batchCommands, admit } = this.#options;
    const writer = new ClusterLoad<N>({
      ...{ batchBytes, batchCommands, admit, ...hooks },
      epoch: this.#slotEpoch(shard, { epoch }),
      writer: this.#writer(shard),
      ownSlot: this.#ownSlot,
      rounds: ROUNDS,
      everywhere: (argv) => this.#everywhere(argv, true),
      audit: await this.#auditLoad(),
    });
    return { writer, close: () => {} };
  }

  stream(shard: number, checkpoint: Checkpoint): StreamTarget & { close(): void } {
    const { crossSlot, onFailure, reread } = this.#options;
    const slots = new Map<number, StreamPlace>();
    this.#confirmed.set(shard, { slots, from: checkpoint.offset });
    this.#audited.set(shard, this.#nodes.losses);
    const stream = new ClusterStream({
      ...{ crossSlot, confirmed: slots, from: checkpoint.offset },
      onFailure: (note, reply) => onFailure(shard, note, reply),
      audit: () => this.#audit(shard, checkpoint),
      writer: this.#writer(shard),
      epoch: this.#slotEpoch(shard, checkpoint),
      marks: this.#marks.get(shard) ?? new Map(),
      reread: async (keys) => this.#adapted(await reread(shard, keys)),
      everywhere: (argv, all) => this.#everywhere(argv, all),
      flush: (argv) => this.#flush(argv, shard, checkpoint),
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
    const once = { sequence: "commit", id: randomBytes(6).toString("hex") };
    for (const note of batch.notes) {
      if (note === undefined) continue;
      const keys = (keysOf(note.argv) ?? [1]).map((at) => note.argv[at] as Buffer);
      const slot = keySlot(keys[0] as Buffer);
      const group = groups.get(slot) ?? { slot, place: undefined, once, commands: [], holds: [] };
      groups.set(slot, group);
      group.commands.push({ argv: note.argv, keys });
    }
    // The list of held expiries is popped last, because repeating the rest is harmless.
    const own = [...groups.values()].filter(({ slot }) => slot === this.#ownSlot);
    const others = [...groups.values()].filter(({ slot }) => slot !== this.#ownSlot);
    for (const round of [others, own])
      await this.#writer(shard).apply(this.#slotEpoch(shard, checkpoint), round);
  }

  move(shard: number, checkpoint: Checkpoint): Promise<void> {
    return this.#checkpoint(shard, checkpoint);
  }

  async reader(): Promise<TargetReader> {
    return new ClusterReader(this.#nodes);
  }

  async record(kind: RecordKind, entries: readonly object[]): Promise<void> {
    const { task, logger } = this.#options;
    const nodes = new ClusterNodes(this.#plan);
    const connect = async () => nodes.open(await nodes.addressOf(this.#ownSlot));
    await storeRecords({ task, kind, entries, logger, connect });
    nodes.close();
  }

  close(): void {
    this.#options.onClose();
    this.#nodes.close();
  }

  #slotEpoch(shard: number, { epoch }: Pick<Checkpoint, "epoch">): number {
    return epoch * MOST_PASSES + (this.#passes.get(shard) ?? 0);
  }

  get #ownSlot(): number {
    return keySlot(Buffer.from(checkpointKey(this.#options.task, 0)));
  }

  /** A connection to the master that owns the task's own keys. */
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
    const fence = { task, epoch, checkpointKey: key, markKey: key, markField: "mark" };
    const lane = new Lane({ fence, connect: () => this.#home(), stallMs, signal, onStall });
    try {
      const mark = singleMark(checkpoint);
      await lane.commit(new Transaction(), mark, checkpointFields(checkpoint, mark));
      onStall(undefined);
    } finally {
      lane.close();
    }
  }

  /** Returns a check for the end of a load: whether the processes that confirmed keys are still the masters. */
  async #auditLoad(): Promise<() => Promise<void>> {
    const before = await this.#processes();
    const { losses } = this.#nodes;
    return async () => {
      if (this.#nodes.losses === losses) return;
      await this.#nodes.refresh();
      const after = await this.#processes();
      if (before.every((process) => after.includes(process))) return;
      throw new TargetRewoundError(this.where, "the masters of before", "other ones");
    };
  }

  /** The masters, by the ids of their processes. */
  async #processes(): Promise<string[]> {
    const masters = await this.#nodes.masters();
    return Promise.all(
      masters.map(async ({ address }) => {
        const info = String(await (await this.#nodes.at(address)).call("INFO", "server"));
        return /^run_id:(\S+)/m.exec(info)?.[1] ?? "";
      }),
    );
  }

  /** Runs a command without keys on all masters, or on one. Returns an error reply, if there is one. */
  async #everywhere(argv: readonly Buffer[], all: boolean): Promise<string | undefined> {
    const { signal, onStall } = this.#options;
    const backoff = new Backoff({ baseMs: 20, maxMs: 1_000 });
    const done = new Set<string>();
    let failure: string | undefined;
    for (;;) {
      try {
        const masters = await this.#nodes.masters();
        for (const { address } of all ? masters : masters.slice(0, 1)) {
          if (done.has(showAddress(address))) continue;
          const node = await this.#nodes.at(address);
          const [reply] = await node.exchange(encodeCommand(argv), 1);
          if (reply instanceof ErrorReply) failure = reply.message;
          done.add(showAddress(address));
        }
        return failure;
      } catch (error) {
        const lost = error instanceof ConnectionLostError || error instanceof ConnectFailedError;
        if (!lost || signal.aborted) throw error;
        onStall(error.message);
        await sleep(backoff.next(), signal);
        await this.#nodes.refresh().catch(() => {});
      }
    }
  }

  /** Empties all masters and claims their slots again, because the marks are deleted too. */
  async #flush(argv: readonly Buffer[], shard: number, checkpoint: Checkpoint): Promise<void> {
    const epoch = this.#slotEpoch(shard, checkpoint);
    const home = { slot: this.#ownSlot, key: checkpointKey(this.#options.task, shard) };
    const writer = this.#writer(shard);
    await writer.flush(epoch, argv, home);
    await writer.claim(epoch, "keep");
  }

  /** Whether the cluster holds only keys of the task. */
  async #isEmpty(): Promise<boolean> {
    for await (const { keys } of new ClusterReader(this.#nodes).pages(SCANNED)) {
      if (!keys.every(isOwnKey)) return false;
    }
    return true;
  }
}

/** The places that slots have confirmed since a stream began. */
interface Confirmations {
  readonly slots: Map<number, StreamPlace>;
  readonly from: number;
}
