/** Reads from one server. */
import type { Reply } from "../resp/reply-reader.ts";
import { RespWriter } from "../resp/writer.ts";
import type { Connection } from "../wire/connection.ts";
import type { KeyQuery, TargetReader } from "./sink.ts";

/** Reads keys from one server. */
export class RedisReader implements TargetReader {
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
  }

  async query(queries: readonly KeyQuery[]): Promise<Reply[]> {
    const writer = new RespWriter();
    const places: number[] = [];
    let count = 0;
    let db: number | undefined;
    for (const query of queries) {
      if (query.db !== db) {
        writer.command(["SELECT", query.db]);
        db = query.db;
        count += 1;
      }
      places.push(count);
      writer.command(query.argv);
      count += 1;
    }
    const replies = await this.#connection.exchange(writer.take(), count);
    return places.map((at) => replies[at] ?? null);
  }

  async now(): Promise<number> {
    const [seconds, micros] = await this.#connection.call<readonly Buffer[]>("TIME");
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  }

  async *pages(count: number): AsyncGenerator<{ db: number; keys: readonly Buffer[] }> {
    const info = String(await this.#connection.call("INFO", "keyspace"));
    for (const [, name] of info.matchAll(/^db(\d+):/gm)) {
      const db = Number(name);
      let cursor = "0";
      do {
        await this.#connection.call("SELECT", db);
        const page = await this.#connection.call<readonly [Buffer, readonly Buffer[]]>(
          "SCAN",
          cursor,
          "COUNT",
          count,
        );
        cursor = String(page[0]);
        yield { db, keys: page[1] };
      } while (cursor !== "0");
    }
  }

  close(): void {
    this.#connection.destroy();
  }
}
