/** A Redis, a connection, and everything made on it, closed together in the right order. */
import { type ConnectOptions, connect, type Redis } from "@ropeway/core";
import { type RedisOptions, type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, afterEach } from "vitest";
import type { AnyHandlers, ServerOptions } from "../src/index.ts";
import { type ClientOptions, createClient, type RpcClient, RpcServer } from "../src/index.ts";

/** What a test file works with. */
export class Stage implements AsyncDisposable {
  readonly server: RedisServer;
  readonly redis: Redis;
  readonly #open: { close(): Promise<void> }[] = [];

  constructor(server: RedisServer, redis: Redis) {
    this.server = server;
    this.redis = redis;
  }

  static async open(options?: RedisOptions, connecting?: ConnectOptions): Promise<Stage> {
    const server = await startRedis(options);
    return new Stage(server, await connect(server.url, connecting));
  }

  /** For the tests of one file, at whose top it is awaited: each begins with nothing on an empty Redis. */
  static async forFile(): Promise<Stage> {
    const stage = await Stage.open();
    afterAll(() => stage.close());
    afterEach(async () => {
      await stage.clear();
      await stage.server.command("FLUSHALL");
    });
    return stage;
  }

  async client(options?: ClientOptions): Promise<RpcClient> {
    return this.keep(await createClient(this.redis, { ns: "t", ...options }));
  }

  async serve(handlers: AnyHandlers, options?: ServerOptions): Promise<RpcServer> {
    const server = new RpcServer(this.redis, { ns: "t", exposeErrors: true, ...options }).add(
      "demo",
      handlers,
    );
    return this.keep(await server.start());
  }

  keep<T extends { close(): Promise<void> }>(thing: T): T {
    this.#open.unshift(thing);
    return thing;
  }

  /** Closes what was made here, and leaves the Redis. */
  async clear(): Promise<void> {
    for (const thing of this.#open.splice(0)) await thing.close();
  }

  async close(): Promise<void> {
    await this.clear();
    await this.redis.close();
    await this.server.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** The items of a stream. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}
