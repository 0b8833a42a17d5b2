/** Puts a task together: sink, sources, and one ShardSync per source. */
import { type Logger, parseEndpoint } from "@ropeway/core";
import { Translator } from "./apply/translator.ts";
import type { Checkpoint } from "./checkpoint.ts";
import type { ErrorBudget } from "./error-budget.ts";
import { checkpointKey, expiriesKey, laneKey } from "./keys.ts";
import { sweep } from "./load/ghost-sweep.ts";
import { SeenKeys } from "./load/seen-keys.ts";
import { settle } from "./load/settle.ts";
import { SnapshotLoader } from "./load/snapshot-loader.ts";
import { Mapping } from "./mapping.ts";
import type { ResolvedSyncOptions } from "./options.ts";
import { Counters, type SyncStatus } from "./progress.ts";
import type { RateLimiter } from "./rate-limiter.ts";
import { ShardSync } from "./shard-sync.ts";
import { type Abilities, probe } from "./sink/abilities.ts";
import { RedisSink } from "./sink/redis-sink.ts";
import type { Feed, Snapshot } from "./source/feed.ts";
import { PsyncFeed } from "./source/psync-feed.ts";
import { Locator } from "./wire/locator.ts";

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
}

/** A task, put together. */
export interface Assembly {
  readonly sink: RedisSink;
  readonly shards: readonly ShardSync[];
  readonly counters: readonly Counters[];
}

/** Builds everything. Talks to the target once, to learn what it can do. */
export async function assemble(context: AssemblyContext): Promise<Assembly> {
  const { options, signal, logger, task, admit, limiter, budget } = context;
  const counters = new Counters();
  const { lanes, batchBytes, batchCommands, stallMs, connectTimeoutMs } = options;
  const sink = new RedisSink({
    endpoint: parseEndpoint(options.to, "to"),
    task,
    ...{ lanes, batchBytes, batchCommands, stallMs, connectTimeoutMs },
    ...{ signal, logger, admit },
    onStall: (reason) => {
      counters.stalled = reason;
    },
    onRoundTrip: (ms) => limiter.observe(ms),
    onFailure: ({ argv, db }, reply) => budget.spend(argv, db, reply),
  });
  await using connection = await sink.connect();
  const abilities = await probe(connection, task);
  const shard = new ShardParts({ context, sink, counters, abilities, shard: 0 });
  return { sink, shards: [shard.sync()], counters: [counters] };
}

/** What one shard is made of. */
class ShardParts {
  readonly #context: AssemblyContext;
  readonly #sink: RedisSink;
  readonly #counters: Counters;
  readonly #abilities: Abilities;
  readonly #shard: number;
  readonly #mapping: Mapping;
  #translator: Translator | undefined;

  constructor(parts: {
    context: AssemblyContext;
    sink: RedisSink;
    counters: Counters;
    abilities: Abilities;
    shard: number;
  }) {
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
      sink: this.#sink,
      counters: this.#counters,
      attach: (after) => this.#attach(after),
      load: (snapshot, checkpoint, again) => this.#load(snapshot, checkpoint, again),
      settle: (checkpoint) => this.#settle(checkpoint),
      translator: (checkpoint) => this.#translate(checkpoint),
    });
  }

  #attach(after: Checkpoint | Parameters<typeof PsyncFeed.attach>[1]): Promise<Feed> {
    const { options, signal, logger, task, onStatus } = this.#context;
    const { connectTimeoutMs, silenceMs } = options;
    const endpoint = parseEndpoint(options.from, "from");
    const name = `ropeway-sync:${task}`;
    return PsyncFeed.attach(
      {
        source: new Locator(endpoint, { connectTimeoutMs, name, master: false }),
        spool: {
          dir: options.spoolDir,
          memoryBytes: options.spoolMemoryBytes,
          diskBytes: options.spoolDiskBytes,
        },
        ...{ connectTimeoutMs, silenceMs, signal },
        withoutKeys: options.mode === "increment",
        onFault: (error) => logger.warn({ err: error }, "the source is being reconnected"),
        onFailover: (from, to) => {
          logger.warn({ from, to }, "the source is another server now");
          onStatus("FAILOVER");
          onStatus("COMMANDRUNNING");
        },
      },
      after,
    );
  }

  async #load(snapshot: Snapshot, checkpoint: Checkpoint, again: boolean): Promise<void> {
    const { options, task, signal, budget, logger } = this.#context;
    const sweeps =
      options.sweep === "always" || (options.sweep === "auto" && again && checkpoint.owned);
    const seen = sweeps ? new SeenKeys() : undefined;
    const { existing, path, bigBytes, batchBytes, ttlShiftMs, functions } = options;
    const loader = new SnapshotLoader({
      ...{ snapshot, task, signal, budget, logger, checkpoint, seen },
      ...{ existing, path, bigBytes, batchBytes, ttlShiftMs, functions },
      sink: this.#sink,
      shard: this.#shard,
      abilities: this.#abilities,
      mapping: this.#mapping,
      counters: this.#counters,
      ttlFenceMs: options.mode === "total" ? options.ttlFenceMs : 0,
    });
    await loader.run();
    if (seen !== undefined && !signal.aborted) await this.#sweep(seen, checkpoint);
  }

  async #sweep(seen: SeenKeys, checkpoint: Checkpoint): Promise<void> {
    const { signal, logger } = this.#context;
    const stream = this.#sink.stream(this.#shard, checkpoint);
    await using connection = await this.#sink.connect();
    try {
      const info = String(await connection.call("INFO", "keyspace"));
      const dbs = [...info.matchAll(/^db(\d+):/gm)].map(([, db]) => Number(db));
      const mapping = this.#mapping;
      const targets = mapping.dbs?.map((db) => mapping.db(db));
      const swept = await sweep({
        ...{ connection, seen, signal },
        dbs: dbs.filter((db) => targets?.includes(db) ?? true),
        unlink: this.#abilities.unlink,
        covers: (_db, key) => mapping.mayHaveWritten(key),
        commit: (transaction) => stream.apply(transaction, checkpoint),
      });
      if (swept > 0) logger.info({ swept }, "keys that the source no longer has were deleted");
    } finally {
      stream.close();
    }
  }

  async #settle(checkpoint: Checkpoint): Promise<void> {
    const { task, signal, logger } = this.#context;
    const stream = this.#sink.stream(this.#shard, checkpoint);
    await using connection = await this.#sink.connect();
    try {
      const settled = await settle({
        ...{ connection, signal },
        listKey: expiriesKey(task, this.#shard),
        commit: (transaction) => stream.apply(transaction, checkpoint),
      });
      if (this.#translator !== undefined) this.#translator.fencing = false;
      if (settled > 0) logger.info({ settled }, "expiries that were held back are set");
    } finally {
      stream.close();
    }
  }

  #translate(checkpoint: Checkpoint): Translator {
    const { options, task, budget } = this.#context;
    const { flush, swapDb, functions, publish, transform, twoWay, lanes } = options;
    const flushed = flush === "auto" ? (checkpoint.owned ? "apply" : "stop") : flush;
    const shard = this.#shard;
    this.#translator = new Translator({
      policies: { flush: flushed, swapDb, functions, publish },
      mapping: this.#mapping,
      abilities: this.#abilities,
      ...{ transform, twoWay },
      ownKeys: [
        checkpointKey(task, shard),
        ...Array.from({ length: lanes }, (_, lane) => laneKey(task, shard, lane)),
      ],
      expiriesKey: expiriesKey(task, shard),
      onUnwritable: (argv, db, reason) => budget.spend(argv, db, reason),
      onFiltered: () => this.#counters.count("filtered"),
    });
    return this.#translator;
  }
}
