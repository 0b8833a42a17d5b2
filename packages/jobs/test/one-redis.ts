/** A Redis for one test file, with queues and workers that are closed after each test. */
import { connect, type Redis } from "@ropeway/core";
import { type RedisOptions, type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, afterEach, beforeAll } from "vitest";
import {
  type AnyJobs,
  type JobContext,
  Queue,
  type QueueOptions,
  Worker,
  type WorkerOptions,
} from "../src/index.ts";

/** Tests know their data, so any handler is accepted. */
// biome-ignore lint/suspicious/noExplicitAny: see above
type LooseHandler = (job: any) => unknown;
export type LooseHandlers = LooseHandler | Readonly<Record<string, LooseHandler>>;
type Loose = (job: JobContext) => unknown;

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

  /** A queue with a new name. */
  queue(options?: QueueOptions<AnyJobs>, name: string = `queue ${this.#names++}`): Queue {
    return this.#keep(new Queue(this.redis, name, options));
  }

  worker(
    queue: Queue | readonly Queue[],
    handlers: LooseHandlers,
    options?: WorkerOptions<AnyJobs>,
  ): Worker {
    const names = [queue].flat().map(({ name }) => name);
    const how = { closeWithinMs: 500, ...options } as WorkerOptions<AnyJobs> & { batch?: 0 };
    return this.#keep(new Worker(this.redis, names, handlers as Loose, how));
  }

  /** Closes the object after the test. */
  keep<T extends AsyncDisposable>(thing: T): T {
    return this.#keep(thing);
  }

  async closeAll(): Promise<void> {
    await Promise.all(this.#opened.splice(0).map((thing) => thing[Symbol.asyncDispose]()));
  }

  #keep<T extends AsyncDisposable>(thing: T): T {
    this.#opened.push(thing);
    return thing;
  }
}

/** Runs `count` jobs with a worker and returns the values of `pick`, in the order the jobs ran. */
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
