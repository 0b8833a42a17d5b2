/** A Redis for one test file, with queues and workers that are closed after each test. */
import { connect, type Redis } from "@ropeway/core";
import { type RedisOptions, type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, afterEach, beforeAll } from "vitest";
import {
  type Handlers,
  Queue,
  type QueueOptions,
  Worker,
  type WorkerOptions,
} from "../src/index.ts";

export class OneRedis {
  server!: RedisServer;
  redis!: Redis;
  readonly #opened: AsyncDisposable[] = [];
  #names = 0;

  constructor(options?: RedisOptions) {
    beforeAll(async () => {
      this.server = await startRedis(options);
      this.redis = await connect(this.server.url);
    });
    afterEach(() => this.closeAll());
    afterAll(async () => {
      await this.redis.close();
      await this.server.close();
    });
  }

  /** A queue of its own name. */
  queue(options?: QueueOptions, name: string = `queue ${this.#names++}`): Queue {
    return this.#keep(new Queue(this.redis, name, options));
  }

  worker(queue: Queue | readonly Queue[], handlers: Handlers, options?: WorkerOptions): Worker {
    const names = [queue].flat().map(({ name }) => name);
    return this.#keep(new Worker(this.redis, names, handlers, { closeWithinMs: 500, ...options }));
  }

  async closeAll(): Promise<void> {
    await Promise.all(this.#opened.splice(0).map((thing) => thing[Symbol.asyncDispose]()));
  }

  #keep<T extends AsyncDisposable>(thing: T): T {
    this.#opened.push(thing);
    return thing;
  }
}

/** Runs `count` jobs with a worker and returns what `pick` makes of them, in the order they ran. */
export function collector<T>(pick: (job: { id: string; name: string; data: T }) => unknown) {
  const seen: unknown[] = [];
  return {
    seen,
    // biome-ignore lint/suspicious/noExplicitAny: tests know their data
    handler: (job: any) => {
      seen.push(pick(job));
    },
  };
}
