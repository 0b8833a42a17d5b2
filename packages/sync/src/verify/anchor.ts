/**
 * The progress of the task for one key: up to which offset the target has everything, and which hash
 * records the stream's offset, so that a repair is refused if the stream has moved on.
 *
 *   target a server     the checkpoint of the key's shard is both
 *   target a cluster    the checkpoint has the offset of all slots; the mark of the key's slot moves with its writes
 */
import { slotTag } from "../cluster/slot-tags.ts";
import { keySlot } from "../command/slot.ts";
import { checkpointKey, slotMarkKey } from "../keys.ts";
import type { End } from "./end.ts";

/** Reads the progress of a task for one key. */
export class Anchor {
  readonly #task: string;
  readonly #source: End;
  readonly #target: End;

  constructor(task: string, source: End, target: End) {
    this.#task = task;
    this.#source = source;
    this.#target = target;
  }

  /** The last offset that the target has of the shard of this source key. */
  async offset(key: Buffer): Promise<number | undefined> {
    const checkpoint = checkpointKey(this.#task, await this.#source.shardOf(key));
    const home = await this.#target.guard(Buffer.from(checkpoint));
    const offset = await home.call("HGET", checkpoint, "offset");
    return offset === null ? undefined : Number(offset);
  }

  /** The hash that every write of the stream to `name` moves. `name` is the source's `key` as named at the target. */
  async mark(key: Buffer, name: Buffer): Promise<string> {
    const shard = await this.#source.shardOf(key);
    return this.#target.clustered
      ? slotMarkKey(this.#task, shard, slotTag(keySlot(name)))
      : checkpointKey(this.#task, shard);
  }
}
