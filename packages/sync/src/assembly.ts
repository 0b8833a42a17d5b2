/** Assembles a task: sink, sources, and one ShardSync per source. */
import { ConnectionLostError, InvalidOptionError, type Logger, parseEndpoint } from "@ropeway/core";
import type { StreamNote } from "./apply/applier.ts";
import { Translator } from "./apply/translator.ts";
import { VanishedKeys } from "./apply/vanished-keys.ts";
import type { Checkpoint } from "./checkpoint.ts";
import { ClusterSink } from "./cluster/cluster-sink.ts";
import { MovedSets } from "./cluster/moved-sets.ts";
import { readAnew } from "./cluster/read-anew.ts";
import { Rereader } from "./cluster/rereader.ts";
import { NUDGE, SlotFence } from "./cluster/slot-fence.ts";
import type { ErrorBudget } from "./error-budget.ts";
import { FileSink } from "./file/file-sink.ts";
import { fileEnd } from "./file/format.ts";
import { refuseSameServer } from "./history-id.ts";
import { refuseOtherInstallation } from "./installation-id.ts";
import { checkpointKey, expiriesKey, laneKey, movedKey, vanishedKey } from "./keys.ts";
import type { BigKeyRecord } from "./load/big-key-record.ts";
import { sweep } from "./load/ghost-sweep.ts";
import { SeenKeys } from "./load/seen-keys.ts";
import { settle } from "./load/settle.ts";
import { SnapshotLoader } from "./load/snapshot-loader.ts";
import { Mapping } from "./mapping.ts";
import type { ResolvedSyncOptions } from "./options.ts";
import { Counters, type SyncStatus } from "./progress.ts";
import type { RateLimiter } from "./rate-limiter.ts";
import { ShardSync } from "./shard-sync.ts";
import type { Abilities } from "./sink/abilities.ts";
import { RedisSink } from "./sink/redis-sink.ts";
import type { Sink } from "./sink/sink.ts";
import type { Snapshot } from "./source/feed.ts";
import { fileSource, isFileUrl } from "./source/file-source.ts";
import { scanSource } from "./source/scan-source.ts";
import { liveSources, type Source } from "./source/source.ts";
import { encodeCommand } from "./wire/encode.ts";

/** What the parts of a task share. */
export interface AssemblyContext {
  readonly task: string;
  readonly options: ResolvedSyncOptions;
  readonly signal: AbortSignal;
  readonly limiter: RateLimiter;
  readonly budget: ErrorBudget;
  readonly logger: Logger;
  admit(commands: number, bytes: number): Promise<void> | undefined;
  onStatus(status: SyncStatus): void;
  onBigKey(record: BigKeyRecord): void;
}

/** An assembled task. */
export interface Assembly {
  /** Only for a cluster as the source. */
  readonly fence: SlotFence | undefined;
  readonly sink: Sink;
  readonly shards: readonly ShardSync[];
  readonly counters: readonly Counters[];
}

/** Builds everything. Connects to both ends to learn how many shards there are and what the target supports. */
export async function assemble(context: AssemblyContext): Promise<Assembly> {
  const sources = await openSources(context);
  const counters = sources.map(() => new Counters());
  const vanished = new Map<number, VanishedKeys>();
  const sink = openSink(context, { sources, counters, vanished });
  try {
    const abilities = await sink.probe();
    await refuseSameServer(sources, abilities.historyId, context.options);
    await refuseOtherInstallation(sources, abilities.installationId, context.options);
    const shards: ShardSync[] = [];
    const fence = openFence(context, { sources, shards, sink });
    sources.forEach((source, shard) => {
      const parts = { context, sink, source, abilities, shard, sharded: sources.length > 1, fence };
      const keys = openVanished(parts);
      if (keys !== undefined) vanished.set(shard, keys);
      shards.push(
        new ShardParts({ ...parts, vanished: keys, counters: counters[shard] as Counters }).sync(),
      );
    });
    return { sink, shards, counters, fence };
  } catch (error) {
    sink.close();
    throw error;
  }
}

/** A target that is a file. */
const isFile = (url: string) => url.startsWith("file:");

/** Creates the fence that orders the shards of a cluster. The shards are created after it. */
function openFence(
  { signal, options, logger, task }: AssemblyContext,
  parts: { sources: readonly Source[]; shards: readonly ShardSync[]; sink: Sink },
): SlotFence | undefined {
  const { sources, shards, sink } = parts;
  const fenced = sources.flatMap(({ shard: locator }, index) =>
    locator === undefined ? [] : [{ locator, applied: () => shards[index]?.applied }],
  );
  if (fenced.length === 0) return undefined;
  return new SlotFence({
    ...{ shards: fenced, signal, patienceMs: options.stallMs },
    onWait: (reason) => logger.warn({ reason }, "the task is waiting for the source"),
    sets: isFile(options.to) ? undefined : new MovedSets(sink, task),
  });
}

async function openSources({
  options,
  signal,
  logger,
  task,
  onStatus,
}: AssemblyContext): Promise<Source[]> {
  const { connectTimeoutMs, silenceMs, keepOff } = options;
  if (isFileUrl(options.from)) return [await fileSource(options.from, { silenceMs, signal })];
  if (options.scan) {
    if (options.mode !== "stock") {
      throw new InvalidOptionError(
        "scan",
        true,
        'used with mode "stock": SCAN does not show changes',
      );
    }
    const name = `ropeway-sync:${task}`;
    return [scanSource({ url: options.from, name, connectTimeoutMs, signal, keepOff })];
  }
  return liveSources({
    url: options.from,
    name: `ropeway-sync:${task}`,
    spool: {
      dir: options.spoolDir,
      memoryBytes: options.spoolMemoryBytes,
      diskBytes: options.spoolDiskBytes,
    },
    ...{ connectTimeoutMs, silenceMs, signal, keepOff },
    withoutKeys: options.mode === "increment",
    onFault: (error) => logger.warn({ err: error }, "reconnecting to the source"),
    onFailover: (from, to) => {
      logger.warn({ from, to }, "the source moved to another server");
      onStatus("FAILOVER");
      onStatus("COMMANDRUNNING");
    },
  });
}

/** Finds keys that the target expired too early, for sources that can be queried for them. */
function openVanished(parts: {
  readonly context: AssemblyContext;
  readonly sink: Sink;
  readonly source: Source;
  readonly shard: number;
  readonly fence: SlotFence | undefined;
}): VanishedKeys | undefined {
  const { context, sink, source, shard, fence } = parts;
  const { options, task, signal, logger } = context;
  const mapping = new Mapping(options);
  // With a transform or a command filter, the value would bring back commands that were left out or changed.
  const changed = options.transform !== undefined || mapping.picksCommands;
  // Mode increment applies changes to keys that it never copied, so a missing key means nothing.
  const partly = options.mode === "increment";
  // With two-way tasks, the value would replace changes that clients of the target made meanwhile.
  const shared = options.twoWay;
  if (!source.live || sink.keepsExpired || changed || partly || shared) return undefined;
  return new VanishedKeys({
    ...{ mapping, signal, logger },
    setKey: fence === undefined ? vanishedKey(task, shard) : movedKey(task, shard),
    reader: () => sink.reader(),
    read: async (db, keys) => {
      await using connection = await source.connect();
      if (connection === undefined) throw new ConnectionLostError(source.where, "no server");
      const read = await readAnew(connection, keys, db);
      await connection.exchange(encodeCommand(NUDGE), 1);
      return read;
    },
    handOver: fence && ((keys) => fence.readAgain(shard, keys)),
  });
}

function openSink(
  context: AssemblyContext,
  {
    sources,
    counters,
    vanished,
  }: {
    readonly sources: readonly Source[];
    readonly counters: readonly Counters[];
    /** By shard. */
    readonly vanished: ReadonlyMap<number, VanishedKeys>;
  },
): Sink {
  const { options, signal, logger, task, admit, limiter, budget } = context;
  const { lanes, batchBytes, batchCommands, stallMs, connectTimeoutMs, crossSlot } = options;
  const { keepOff } = options;
  if (isFile(options.to)) {
    const { bigBytes, restart: overwrite } = options;
    const shards = sources.length;
    const plan = { task, batchBytes, bigBytes, overwrite, shards, admit };
    return new FileSink({ ...fileEnd(options), ...plan });
  }
  const endpoint = parseEndpoint(options.to, "to");
  const common = {
    ...{ endpoint, task, batchBytes, batchCommands, stallMs, connectTimeoutMs },
    ...{ signal, logger, admit, keepOff },
    onStall: (reason: string | undefined) => {
      for (const each of counters) each.stalled = reason;
    },
    onRoundTrip: (ms: number) => limiter.observe(ms),
    onFailure: (shard: number, note: StreamNote, reply: string) => {
      if (vanished.get(shard)?.explains(note, reply)) return;
      budget.spend(note.argv, note.db, reply);
    },
  };
  if (endpoint.topology !== "cluster") {
    const onZero = (shard: number, note: StreamNote) => vanished.get(shard)?.idle(note);
    const onLost = (shard: number, notes: readonly (StreamNote | undefined)[]) => {
      if (vanished.get(shard)?.lost(notes)) return;
      const commands = notes.length;
      logger.warn({ shard, commands }, "replies of the target were lost; run sync verify --repair");
    };
    return new RedisSink({ ...common, lanes, onZero, onLost });
  }
  const mapping = new Mapping(options);
  const rereaders = sources.map((source) => new Rereader(source, mapping, options.ttlShiftMs));
  return new ClusterSink({
    ...{ ...common, crossSlot },
    reread: (shard, keys) => (rereaders[shard] as Rereader).read(keys),
    onClose: () => {
      for (const each of rereaders) each.close();
    },
  });
}

/** Creates the parts of one shard. */
class ShardParts {
  readonly #context: AssemblyContext;
  readonly #sink: Sink;
  readonly #source: Source;
  /** Whether there are other shards. */
  readonly #sharded: boolean;
  readonly #fence: SlotFence | undefined;
  readonly #vanished: VanishedKeys | undefined;
  readonly #counters: Counters;
  readonly #abilities: Abilities;
  readonly #shard: number;
  readonly #mapping: Mapping;
  #translator: Translator | undefined;

  constructor(parts: {
    context: AssemblyContext;
    sink: Sink;
    source: Source;
    counters: Counters;
    abilities: Abilities;
    shard: number;
    sharded: boolean;
    fence: SlotFence | undefined;
    vanished: VanishedKeys | undefined;
  }) {
    this.#source = parts.source;
    this.#vanished = parts.vanished;
    this.#sharded = parts.sharded;
    this.#fence = parts.fence;
    this.#context = parts.context;
    this.#sink = parts.sink;
    this.#counters = parts.counters;
    this.#abilities = parts.abilities;
    this.#shard = parts.shard;
    this.#mapping = new Mapping(parts.context.options);
  }

  sync(): ShardSync {
    const { options, logger, signal, admit, onStatus } = this.#context;
    return new ShardSync({
      ...{ options, logger, signal, admit, onStatus },
      shard: this.#shard,
      fence: this.#fence,
      vanished: this.#vanished,
      sink: this.#sink,
      counters: this.#counters,
      attach: (after) => this.#source.attach(after),
      fork: (position) => this.#source.fork(position),
      load: (snapshot, checkpoint, again) => this.#load(snapshot, checkpoint, again),
      settle: (checkpoint) => this.#settle(checkpoint),
      translator: (checkpoint) => this.#translate(checkpoint),
    });
  }

  async #load(snapshot: Snapshot, checkpoint: Checkpoint, again: boolean): Promise<void> {
    const { options, task, signal, budget, logger, onBigKey } = this.#context;
    if (this.#sink.copy !== undefined) {
      const plan = { snapshot, mapping: this.#mapping, counters: this.#counters, signal };
      await this.#sink.copy(this.#shard, plan);
      return;
    }
    // With two-way tasks, a key that the source does not have may be one that clients of the target wrote.
    const alone = checkpoint.owned && !options.twoWay;
    const sweeps = options.sweep === "always" || (options.sweep === "auto" && again && alone);
    const seen = sweeps ? new SeenKeys() : undefined;
    const { existing, path, bigBytes, batchBytes, ttlShiftMs, functions, transform } = options;
    const loader = new SnapshotLoader({
      ...{ snapshot, task, signal, budget, logger, checkpoint, seen, onBigKey },
      ...{ existing, path, bigBytes, batchBytes, ttlShiftMs, functions, transform },
      sink: this.#sink,
      shard: this.#shard,
      abilities: this.#abilities,
      mapping: this.#mapping,
      counters: this.#counters,
      ttlFenceMs: options.mode === "total" && this.#source.live ? options.ttlFenceMs : 0,
    });
    await loader.run();
    if (seen !== undefined && !signal.aborted) await this.#sweep(seen, checkpoint);
  }

  async #sweep(seen: SeenKeys, checkpoint: Checkpoint): Promise<void> {
    const { signal, logger } = this.#context;
    const mapping = this.#mapping;
    const targets = mapping.dbs?.map((db) => mapping.db(db));
    const owns = await this.#source.ownership();
    const reader = await this.#sink.reader();
    try {
      const swept = await sweep({
        ...{ reader, seen, signal },
        unlink: this.#abilities.unlink,
        covers: (db, key) =>
          (targets?.includes(db) ?? true) && mapping.mayHaveWritten(key) && owns(key),
        commit: (batch) => this.#sink.commit(this.#shard, checkpoint, batch),
      });
      if (swept > 0) logger.info({ swept }, "keys that the source no longer has were deleted");
    } finally {
      reader.close();
    }
  }

  async #settle(checkpoint: Checkpoint): Promise<void> {
    const { task, signal, logger } = this.#context;
    const reader = await this.#sink.reader();
    try {
      const settled = await settle({
        ...{ reader, signal },
        listKey: expiriesKey(task, this.#shard),
        commit: (batch) => this.#sink.commit(this.#shard, checkpoint, batch),
      });
      if (this.#translator !== undefined) this.#translator.fencing = false;
      if (settled > 0) logger.info({ settled }, "held back expiries are set");
    } finally {
      reader.close();
    }
  }

  #translate(checkpoint: Checkpoint): Translator {
    const { options, task, budget } = this.#context;
    const { flush, swapDb, functions, publish, transform, ttlShiftMs, twoWay, lanes } = options;
    // FLUSHALL of one shard must not delete the data of the others.
    const harmless = checkpoint.owned && !this.#sharded;
    const flushed = flush === "auto" ? (harmless ? "apply" : "stop") : flush;
    const shard = this.#shard;
    this.#translator = new Translator({
      policies: { flush: flushed, swapDb, functions, publish },
      mapping: this.#mapping,
      abilities: this.#abilities,
      ...{ transform, ttlShiftMs, twoWay },
      ownKeys: isFile(options.to)
        ? []
        : [
            checkpointKey(task, shard),
            vanishedKey(task, shard),
            ...Array.from({ length: lanes }, (_, lane) => laneKey(task, shard, lane)),
          ],
      expiriesKey: expiriesKey(task, shard),
      onUnwritable: (argv, db, reason) => budget.spend(argv, db, reason),
      onFiltered: () => this.#counters.count("filtered"),
    });
    if (this.#sink.keepsExpired) this.#translator.fencing = false;
    return this.#translator;
  }
}
