/** A queue's event stream. */
import type { BlockingConnection } from "@ropeway/core/internal";
import { pairsOf } from "../scripts.ts";
import type { QueueSite } from "./site.ts";

/** One entry of the stream. */
export interface StreamEntry {
  readonly id: string;
  readonly fields: ReadonlyMap<string, string>;
}

type RawEntries = readonly (readonly [string, readonly string[]])[];

/** Reads events, and announces the listener. */
export class EventStore {
  readonly #site: QueueSite;

  constructor(site: QueueSite) {
    this.#site = site;
  }

  /** Announces a listener: scripts write events for this long. */
  async listen(ms: number): Promise<void> {
    const until = (await this.#site.now()) + ms;
    await this.#site.send("HSET", this.#site.keys.meta, "listen", String(until));
  }

  /** The id of the newest entry. */
  async newest(): Promise<string> {
    const args = ["+", "-", "COUNT", "1"];
    const newest = await this.#site.send<RawEntries>("XREVRANGE", this.#site.keys.events, ...args);
    return newest[0]?.[0] ?? "0-0";
  }

  connect(): Promise<BlockingConnection> {
    return this.#site.redis.blocking("jobs-events", this.#site.keys.events);
  }

  /** The entries after `last`; waits for one if there is none. */
  async read(
    connection: BlockingConnection,
    last: string,
    wait: { readonly blockMs: number; readonly signal: AbortSignal },
  ): Promise<StreamEntry[]> {
    const block = ["XREAD", "COUNT", "200", "BLOCK", String(wait.blockMs)];
    const command = [...block, "STREAMS", this.#site.keys.events, last];
    const reply = await connection.send<readonly (readonly [string, RawEntries])[]>(command, wait);
    return (reply?.[0]?.[1] ?? []).map(([id, flat]) => ({ id, fields: pairsOf(flat) }));
  }
}
