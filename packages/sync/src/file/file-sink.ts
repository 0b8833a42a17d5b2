/**
 * Writes to files instead of a server; see format.ts for their content. A source with several shards gets a
 * file for each: dump.0.aof, dump.1.aof.
 *
 * A file has no clock and no other writers. Keys are written with the expiry that the source gave them, even if
 * it has passed: the server that loads the file decides, after it has read the changes after the snapshot.
 */
import type { StreamNote, StreamTarget } from "../apply/applier.ts";
import type { Checkpoint } from "../checkpoint.ts";
import { JsonLines } from "../inspect/json-lines.ts";
import type { Mapping } from "../mapping.ts";
import type { Counters } from "../progress.ts";
import { RdbReader } from "../rdb/reader.ts";
import type { Abilities } from "../sink/abilities.ts";
import type { LoadWriterOptions, SnapshotWriter } from "../sink/load-writer.ts";
import type { KeyNote, Sink, SnapshotCopy, TargetReader } from "../sink/sink.ts";
import type { Transaction } from "../sink/transaction.ts";
import { AofWriter } from "./aof-writer.ts";
import type { FileFormat } from "./format.ts";
import { keyLines } from "./key-lines.ts";
import { TargetFile } from "./target-file.ts";

/** Which files are written. */
export interface FileSinkOptions {
  readonly path: string;
  readonly format: FileFormat;
  readonly task: string;
  readonly batchBytes: number;
  readonly bigBytes: number;
  readonly overwrite: boolean;
  /** How many shards the source has. */
  readonly shards: number;
  admit(commands: number, bytes: number): Promise<void> | undefined;
}

/**
 * The newest known server: commands are passed on unchanged, and the server that loads the file must
 * support them.
 */
const NEWEST: Abilities = {
  family: "redis",
  version: [99, 0],
  rdbVersion: 79,
  restoreReplace: true,
  restoreAbsTtl: true,
  setPxAt: true,
  mset: false,
  unlink: true,
  pExpireTime: true,
  functions: true,
  databases: Number.MAX_SAFE_INTEGER,
};

/** A target that is a file, or a file per shard. */
export class FileSink implements Sink {
  readonly keepsExpired = true;
  readonly #options: FileSinkOptions;
  readonly #files: readonly TargetFile[];

  constructor(options: FileSinkOptions) {
    this.#options = options;
    const { path, task, overwrite, shards } = options;
    this.#files = Array.from({ length: shards }, (_, shard) => {
      const own = shards === 1 ? path : path.replace(/\.\w+$/, (end) => `.${shard}${end}`);
      return new TargetFile({ path: own, task, overwrite });
    });
  }

  get where(): string {
    return this.#options.path;
  }

  async probe(): Promise<Abilities> {
    return NEWEST;
  }

  claim(shard: number, epoch?: number): Promise<Checkpoint> {
    return this.#file(shard).claim(epoch);
  }

  async enter(shard: number, checkpoint: Checkpoint): Promise<Checkpoint> {
    await this.#file(shard).enter(checkpoint);
    return checkpoint;
  }

  async loader<N extends KeyNote>(
    shard: number,
    _epoch: number,
    { complete }: Pick<LoadWriterOptions<N>, "onFailure" | "noteOf" | "complete">,
  ): Promise<{ writer: SnapshotWriter<N>; close(): void }> {
    const { batchBytes, admit } = this.#options;
    const file = this.#file(shard);
    const append = (pieces: readonly Buffer[]) => file.append(pieces);
    return { writer: new AofWriter<N>({ append, batchBytes, admit, complete }), close: () => {} };
  }

  /** Formats other than commands copy the snapshot in their own way. */
  get copy(): SnapshotCopy | undefined {
    const { format, bigBytes } = this.#options;
    if (format === "aof") return undefined;
    return format === "rdb"
      ? (shard, plan) => this.#copyRdb(shard, plan)
      : (shard, plan) => this.#copyJson(shard, { ...plan, bigBytes });
  }

  stream(shard: number, checkpoint: Checkpoint): StreamTarget & { close(): void } {
    const { format } = this.#options;
    return {
      apply: (batch, position) => {
        const pieces = format === "aof" ? batch.encoded() : commandLines(batch);
        return this.#file(shard).append(pieces, { ...checkpoint, ...position });
      },
      close: () => {},
    };
  }

  move(shard: number, checkpoint: Checkpoint): Promise<void> {
    return this.#file(shard).append([], checkpoint);
  }

  async commit(): Promise<void> {} // a file has nothing to sweep or settle

  async reader(): Promise<TargetReader> {
    return {
      query: async (queries) => queries.map(() => null),
      now: async () => Date.now(),
      async *pages() {},
      close() {},
    };
  }

  async record(): Promise<void> {} // the `discarded` event reports it

  close(): void {
    for (const file of this.#files) void file.close().catch(() => {});
  }

  #file(shard: number): TargetFile {
    return this.#files[shard] as TargetFile;
  }

  /** Copies the snapshot byte for byte. A reader counts its keys and finds damage. */
  async #copyRdb(shard: number, { snapshot, signal, counters }: CopyPlan): Promise<void> {
    const reader = new RdbReader({ maxRawBytes: this.#options.bigBytes });
    for (;;) {
      const chunk = await snapshot.read(signal);
      if (chunk === undefined) break;
      counters.snapshotBytes += chunk.length;
      counters.totalSnapshotBytes = snapshot.bytes;
      reader.push(chunk);
      for (let entry = reader.next(); entry !== undefined; entry = reader.next()) {
        if (entry.kind === "key" || entry.kind === "end") counters.keys += 1;
        else if (entry.kind === "resize") {
          counters.totalKeys = (counters.totalKeys ?? 0) + entry.keys;
        }
      }
      await this.#options.admit(0, chunk.length);
      await this.#file(shard).append([chunk]);
    }
    reader.end();
  }

  async #copyJson(shard: number, plan: CopyPlan & { bigBytes: number }): Promise<void> {
    const { batchBytes, admit } = this.#options;
    let text = "";
    for await (const piece of keyLines(plan)) {
      text += piece;
      if (text.length < batchBytes) continue;
      await admit(0, text.length);
      await this.#file(shard).append([Buffer.from(text)]);
      text = "";
    }
    await this.#file(shard).append([Buffer.from(text)]);
  }
}

type CopyPlan = Parameters<SnapshotCopy>[1] & {
  readonly mapping: Mapping;
  readonly counters: Counters;
};

function commandLines(batch: Transaction<StreamNote>): Buffer[] {
  const lines = batch.notes
    .filter((note) => note !== undefined)
    .map(({ db, argv }) => JsonLines.command(db, argv));
  return [Buffer.from(lines.join(""))];
}
