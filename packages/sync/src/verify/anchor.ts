/**
 * Where the task is with the stream, seen from one key: up to which offset the target has everything, and what
 * to WATCH so that a repair is refused if the stream has moved on.
 *
 *   target a server     the checkpoint of the key's shard says both
 *   target a cluster    the checkpoint says what all slots have; the mark of the key's slot moves with its writes
 */
import { slotTag } from "../cluster/slot-tags.ts";
import { keySlot } from "../command/slot.ts";
import { checkpointKey, slotMarkKey } from "../keys.ts";
import type { Connection } from "../wire/connection.ts";
import type { End } from "./end.ts";

/** See above. */
export class Anchor {
  readonly #task: string;
  readonly #source: End;
  readonly #target: End;

  constructor(task: string, source: End, target: End) {
    this.#task = task;
    this.#source = source;
    this.#target = target;
  }

  /** Whether a task follows the changes. */
  async exists(): Promise<boolean> {
    const key = checkpointKey(this.#task, 0);
    const home = await this.#target.guard(Buffer.from(key));
    return String(await home.call("HGET", key, "phase")) === "stream";
  }

  /** The last offset that the target has of the shard of this key of the source. */
  async offset(key: Buffer): Promise<number | undefined> {
    const checkpoint = checkpointKey(this.#task, await this.#source.shardOf(key));
    const home = await this.#target.guard(Buffer.from(checkpoint));
    const offset = await home.call("HGET", checkpoint, "offset");
    return offset === null ? undefined : Number(offset);
  }

  /** Watches what moves with every write of the stream to `name`, which is `key` of the source at the target. */
  async watch(key: Buffer, name: Buffer): Promise<Connection> {
    const shard = await this.#source.shardOf(key);
    const guard = await this.#target.guard(name);
    const watched = this.#target.clustered
      ? slotMarkKey(this.#task, shard, slotTag(keySlot(name)))
      : checkpointKey(this.#task, shard);
    await guard.call("UNWATCH");
    await guard.call("WATCH", watched);
    return guard;
  }
}
