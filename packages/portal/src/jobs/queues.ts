/**
 * The task queues that requests name. A handle is made for each request and closed after it, so that
 * asking for many names leaves nothing behind. Reading or operating a queue that does not exist is a 404
 * and creates no key; only adding a job creates a queue.
 */
import type { Redis } from "@ropeway/core";
import { Queue, type QueueEvents } from "@ropeway/jobs";
import { UnknownResourceError } from "../errors.ts";
import { Pool } from "../pool.ts";

/** Each feed holds one connection to Redis; streams of one queue share it. */
const MOST_FEEDS = 64;

/** The queues under one prefix. */
export class Queues {
  readonly #redis: Redis;
  readonly #prefix: string;
  readonly #feeds: Pool<Feed>;

  constructor(redis: Redis, prefix: string) {
    this.#redis = redis;
    this.#prefix = prefix;
    this.#feeds = new Pool({
      what: "event feeds",
      most: MOST_FEEDS,
      open: (name) => this.#openFeed(name),
      close: (feed) => feed.close(),
    });
  }

  /** Does the work with a queue that exists. */
  async use<R>(name: string, work: (queue: Queue) => Promise<R>): Promise<R> {
    await this.#check(name);
    return this.useNew(name, work);
  }

  /** Does the work with a queue that need not exist yet. */
  async useNew<R>(name: string, work: (queue: Queue) => Promise<R>): Promise<R> {
    await using queue = this.#handle(name);
    return await work(queue);
  }

  /** Does the work with the live events of a queue that exists. */
  async watch(name: string, work: (events: QueueEvents) => Promise<void>): Promise<void> {
    await this.#feeds.use(name, ({ events }) => work(events));
  }

  /** Refuses a queue that does not exist. */
  async check(name: string): Promise<void> {
    await this.#check(name);
  }

  async names(): Promise<string[]> {
    return Queue.list(this.#redis, { prefix: this.#prefix });
  }

  close(): Promise<void> {
    return this.#feeds.close();
  }

  #handle(name: string): Queue {
    return new Queue(this.#redis, name, { prefix: this.#prefix });
  }

  async #check(name: string): Promise<void> {
    if (!(await this.#handle(name).exists())) throw new UnknownResourceError("queue", name);
  }

  async #openFeed(name: string): Promise<Feed> {
    const queue = this.#handle(name);
    const events = await queue.events();
    const close = async () => {
      await events.close();
      await queue.close();
    };
    return { events, close };
  }
}

interface Feed {
  readonly events: QueueEvents;
  close(): Promise<void>;
}
