// A client that shares no code with this package, for comparisons that must not repeat a mistake of ours.
import type { RedisServer } from "@ropeway/testkit";
import { Redis } from "ioredis";
import type { Asker, Word } from "./ask-model.ts";

export class IndependentRedis implements Asker, AsyncDisposable {
  readonly #redis: Redis;

  constructor({ host, port }: RedisServer) {
    this.#redis = new Redis({ host, port, lazyConnect: true, maxRetriesPerRequest: 0 });
  }

  /** The reply, strings as bytes; an error reply is thrown. */
  send(command: string, ...argv: Word[]): Promise<unknown> {
    return this.#redis.callBuffer(command, ...argv);
  }

  /** The reply, errors as values. */
  reply(command: string, ...argv: Word[]): Promise<unknown> {
    return this.send(command, ...argv).catch((error: unknown) => error);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#redis.disconnect();
  }
}
