import { type EventMap, type Redis, silentLogger } from "@ropeway/core";
import { BackgroundRole, Loop, type Opening } from "@ropeway/core/internal";
import { roleConformance } from "../src/role-conformance.ts";

interface TickEvents extends EventMap {
  tick: [];
}

/** The smallest role that has a connection, a key and an event. */
class Ticker extends BackgroundRole<TickEvents> {
  readonly #redis: Redis;

  constructor(redis: Redis) {
    super("the ticker", silentLogger);
    this.#redis = redis;
  }

  protected override async open({ defer }: Opening): Promise<void> {
    const connection = await this.#redis.blocking("ticker", "ticks");
    defer(() => connection.close());
    await this.#redis.send(["SET", "ticks", "0"]);
    const loop = new Loop({ tick: () => this.#tick(), onError: (error) => this.report(error) });
    loop.start();
    defer(() => loop.close());
  }

  async #tick(): Promise<number> {
    if (this.held) return 5;
    await this.#redis.send(["INCR", "ticks"]);
    this.emit("tick");
    return 5;
  }
}

roleConformance("Ticker", {
  make: (redis) => new Ticker(redis),
  provoke: async (role, listener) => {
    role.on("tick", listener);
  },
});
