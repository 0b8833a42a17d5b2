/** The location of a queue: the Redis, its name, and its keys. All stores of a queue share one. */
import {
  OutOfMemoryError,
  type Redis,
  type Script,
  ServerReplyError,
  WrongKeyTypeError,
} from "@ropeway/core";
import { type QueueKeys, queueKeys } from "../keys.ts";
import { checkQueueName } from "../name.ts";

/** A queue's location in Redis. All its commands are sent here. */
export class QueueSite {
  readonly redis: Redis;
  readonly prefix: string;
  readonly name: string;
  readonly keys: QueueKeys;

  constructor(redis: Redis, prefix: string, name: string) {
    this.redis = redis;
    this.prefix = prefix;
    this.name = checkQueueName(name);
    this.keys = queueKeys(prefix, name);
  }

  /** Runs a script. An error reply of the server becomes a typed error. */
  async run<T>(
    script: Script<T>,
    keys: readonly string[],
    args: readonly (string | number)[],
  ): Promise<T> {
    try {
      return await this.redis.run(script, keys, args);
    } catch (error) {
      throw this.explain(error);
    }
  }

  /** Sends a command that can safely be sent twice. */
  async send<T>(command: string, key: string, ...args: readonly string[]): Promise<T> {
    try {
      return (await this.redis.send([command, key, ...args], { key, repeatable: true })) as T;
    } catch (error) {
      throw this.explain(error);
    }
  }

  /** The server's time in ms. */
  async now(): Promise<number> {
    const options = { key: this.keys.meta, repeatable: true };
    const [seconds, micros] = await this.redis.send<readonly string[]>(["TIME"], options);
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  }

  explain(error: unknown): unknown {
    if (!(error instanceof ServerReplyError)) return error;
    if (error.prefix === "OOM") return new OutOfMemoryError(`queue ${this.name}`, error);
    if (error.prefix === "WRONGTYPE")
      return new WrongKeyTypeError(`${this.keys.meta.slice(0, -4)}*`, error);
    return error;
  }
}
