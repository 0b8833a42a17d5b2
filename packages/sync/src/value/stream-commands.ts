/**
 * A stream as commands. The pending entries of a group come before its consumers, but XCLAIM needs both an
 * entry's times and its consumer. So the pending entries of one group are kept, 28 bytes each, sorted by id as in the
 * input.
 */
import { supports, type TargetServer } from "../command/target.ts";
import { NotExpressibleError } from "../errors.ts";
import type { Argument } from "../resp/writer.ts";
import type { PendingEntry, StreamId, StreamInfo, StreamPart } from "./part.ts";

export class StreamCommands {
  readonly #key: Buffer;
  readonly #target: TargetServer;
  #entries = 0;
  #group: Buffer = Buffer.alloc(0);
  #consumer: Buffer = Buffer.alloc(0);
  #pending = new PendingTable();

  constructor(key: Buffer, target: TargetServer) {
    if (!supports(target, "streams")) {
      throw new NotExpressibleError("stream", "the target has no streams");
    }
    this.#key = key;
    this.#target = target;
  }

  /** The commands for the next part. Throws NotExpressibleError. */
  of(part: StreamPart): Argument[][] {
    const key = this.#key;
    switch (part.piece) {
      case "entries":
        this.#entries += part.entries.length;
        return part.entries.map(({ id, fields }) => ["XADD", key, textOf(id), ...fields]);
      case "info":
        return this.#info(part);
      case "group": {
        this.#group = part.name;
        this.#pending = new PendingTable();
        const create: Argument[] = ["XGROUP", "CREATE", key, part.name, textOf(part.lastId)];
        const counted = part.entriesRead !== undefined && supports(this.#target, "streamCounters");
        if (counted) create.push("ENTRIESREAD", part.entriesRead as bigint);
        return [create];
      }
      case "pending":
        this.#pending.add(part.pending);
        return [];
      case "consumer":
        this.#consumer = part.name;
        if (!supports(this.#target, "createConsumer")) return [];
        return [["XGROUP", "CREATECONSUMER", key, this.#group, part.name]];
      case "owned":
        return part.ids.map((id) => this.#claim(id));
      case "nacked":
        if (part.ids.length === 0) return [];
        throw new NotExpressibleError("stream", "only RESTORE can write released pending entries");
      case "idempotency":
        return []; // entries that producers repeat within this short duration may be added twice
    }
  }

  #info({ lastId, added }: StreamInfo): Argument[][] {
    const commands: Argument[][] = [];
    // An empty stream is made by adding an entry and trimming it.
    const { ms, seq } = lastId;
    if (this.#entries === 0) {
      const id = ms === 0n && seq === 0n ? "0-1" : textOf(lastId);
      commands.push(["XADD", this.#key, "MAXLEN", 0, id, "x", "y"]);
    }
    const set: Argument[] = ["XSETID", this.#key, textOf(lastId)];
    if (added !== undefined && supports(this.#target, "streamCounters")) {
      set.push("ENTRIESADDED", added.entriesAdded, "MAXDELETEDID", textOf(added.maxDeletedId));
    }
    commands.push(set);
    return commands;
  }

  #claim(id: StreamId): Argument[] {
    const { deliveredAtMs, deliveries } = this.#pending.find(id) ?? {
      deliveredAtMs: 0,
      deliveries: 1,
    };
    const claim = ["XCLAIM", this.#key, this.#group, this.#consumer, 0, textOf(id)];
    return [...claim, "TIME", deliveredAtMs, "RETRYCOUNT", deliveries, "FORCE", "JUSTID"];
  }
}

function textOf({ ms, seq }: StreamId): string {
  return `${ms}-${seq}`;
}

/** Pending entries by id: 16 bytes id, 8 bytes time, 4 bytes deliveries. */
class PendingTable {
  #bytes: Buffer = Buffer.alloc(0);
  #count = 0;

  add(entries: readonly PendingEntry[]): void {
    const needed = (this.#count + entries.length) * RECORD;
    if (needed > this.#bytes.length) {
      const grown = Buffer.alloc(Math.max(needed, this.#bytes.length * 2));
      this.#bytes.copy(grown);
      this.#bytes = grown;
    }
    for (const { id, deliveredAtMs, deliveries } of entries) {
      const at = this.#count++ * RECORD;
      this.#bytes.writeBigUInt64BE(id.ms, at);
      this.#bytes.writeBigUInt64BE(id.seq, at + 8);
      this.#bytes.writeDoubleLE(deliveredAtMs, at + 16);
      this.#bytes.writeUInt32LE(Math.min(deliveries, 0xffff_ffff), at + 24);
    }
  }

  find(id: StreamId): { deliveredAtMs: number; deliveries: number } | undefined {
    const wanted = Buffer.alloc(16);
    wanted.writeBigUInt64BE(id.ms);
    wanted.writeBigUInt64BE(id.seq, 8);
    let low = 0;
    let high = this.#count - 1;
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const at = middle * RECORD;
      const order = this.#bytes.compare(wanted, 0, 16, at, at + 16);
      if (order === 0) {
        const deliveredAtMs = this.#bytes.readDoubleLE(at + 16);
        return { deliveredAtMs, deliveries: this.#bytes.readUInt32LE(at + 24) };
      }
      if (order < 0) low = middle + 1;
      else high = middle - 1;
    }
    return undefined;
  }
}

const RECORD = 28;
