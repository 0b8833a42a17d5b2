/**
 * The keys of moved slots that are still to be read again. They are kept in the target, in one set per shard, which the
 * stream of that shard changes together with its checkpoint.
 */
import type { StreamNote } from "../apply/applier.ts";
import { checkpointKey, movedKey } from "../keys.ts";
import type { Reply } from "../resp/reply-reader.ts";
import type { Argument } from "../resp/writer.ts";
import type { Sink } from "../sink/sink.ts";
import type { Transaction } from "../sink/transaction.ts";

const PAGE = 1_000;

/** The sets of one task. */
export class MovedSets {
  readonly #sink: Sink;
  readonly #task: string;

  constructor(sink: Sink, task: string) {
    this.#sink = sink;
    this.#task = task;
  }

  /** All keys of a shard's set. */
  async read(shard: number): Promise<readonly Buffer[]> {
    const members: Buffer[] = [];
    let cursor = "0";
    do {
      const key = movedKey(this.#task, shard);
      const reply = await this.#query(key, ["SSCAN", key, cursor, "COUNT", PAGE]);
      const [next, page] = reply as readonly [Buffer, readonly Buffer[]];
      cursor = String(next);
      for (const member of page) members.push(member);
    } while (cursor !== "0");
    return members;
  }

  /** The numbers of shards that the task had besides the first `count`. */
  async orphans(count: number): Promise<readonly number[]> {
    const found: number[] = [];
    for (let shard = count; ; shard++) {
      const key = checkpointKey(this.#task, shard);
      if (Number(await this.#query(key, ["EXISTS", key])) !== 1) return found;
      found.push(shard);
    }
  }

  /** Adds keys to a shard's set, and removes others. */
  change(
    shard: number,
    { add, remove }: { readonly add: readonly Buffer[]; readonly remove: readonly Buffer[] },
    into: Transaction<StreamNote>,
  ): void {
    const key = movedKey(this.#task, shard);
    if (add.length > 0) write(into, ["SADD", key, ...add]);
    if (remove.length > 0) write(into, ["SREM", key, ...remove]);
  }

  /** Deletes a shard's set. */
  drop(shard: number, into: Transaction<StreamNote>): void {
    write(into, ["DEL", movedKey(this.#task, shard)]);
  }

  async #query(key: string, argv: readonly Argument[]): Promise<Reply | undefined> {
    const reader = await this.#sink.reader();
    try {
      const [reply] = await reader.query([{ db: 0, key: Buffer.from(key), argv }]);
      return reply;
    } finally {
      reader.close();
    }
  }
}

function write(into: Transaction<StreamNote>, words: readonly (string | Buffer)[]): void {
  const argv = words.map((word) => (Buffer.isBuffer(word) ? word : Buffer.from(word)));
  into.select(0);
  into.command(argv, { argv, db: 0, own: true });
}
