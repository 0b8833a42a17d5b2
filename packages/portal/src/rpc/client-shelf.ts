/** Clients by namespace: made when first asked for, the one unused for longest is closed when full. */
import type { Redis } from "@ropeway/core";
import { createClient, type RpcClient } from "@ropeway/rpc";

const MOST = 32;

/** See the top of the file. */
export class ClientShelf {
  readonly #redis: Redis;
  readonly #timeoutMs: number;
  readonly #clients = new Map<string, Promise<RpcClient>>();

  constructor(redis: Redis, timeoutMs: number) {
    this.#redis = redis;
    this.#timeoutMs = timeoutMs;
  }

  async of(ns: string): Promise<RpcClient> {
    const client =
      this.#clients.get(ns) ?? createClient(this.#redis, { ns, timeoutMs: this.#timeoutMs });
    this.#clients.delete(ns); // to the end: the order is that of the last use
    this.#clients.set(ns, client);
    client.catch(() => this.#clients.delete(ns));
    if (this.#clients.size > MOST) await this.#closeOldest();
    return client;
  }

  async close(): Promise<void> {
    const clients = await Promise.allSettled(this.#clients.values());
    this.#clients.clear();
    await Promise.all(
      clients.map((client) => (client.status === "fulfilled" ? client.value.close() : undefined)),
    );
  }

  async #closeOldest(): Promise<void> {
    for (const [ns, client] of this.#clients) {
      this.#clients.delete(ns);
      await (await client).close();
      return;
    }
  }
}
