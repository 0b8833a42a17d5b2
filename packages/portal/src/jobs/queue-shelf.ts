import type { Redis } from "@ropeway/core";
import { Queue } from "@ropeway/jobs";
import { queuesKey } from "@ropeway/jobs/internal";

/** The queues under one prefix; a Queue object per name, made when asked for. */
export class QueueShelf {
  readonly #redis: Redis;
  readonly #prefix: string;
  readonly #queues = new Map<string, Queue>();

  constructor(redis: Redis, prefix: string) {
    this.#redis = redis;
    this.#prefix = prefix;
  }

  get(name: string): Queue {
    const known = this.#queues.get(name);
    if (known !== undefined) return known;
    const queue = new Queue(this.#redis, name, { prefix: this.#prefix });
    this.#queues.set(name, queue);
    return queue;
  }

  async names(): Promise<string[]> {
    const key = queuesKey(this.#prefix);
    const names = await this.#redis.send<readonly string[]>(["SMEMBERS", key], {
      key,
      repeatable: true,
    });
    return [...names].sort();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
  }
}
