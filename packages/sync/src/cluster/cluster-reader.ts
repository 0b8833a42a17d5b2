/** Reads from a cluster: each key from the master that owns its slot. */
import { keySlot } from "../command/slot.ts";
import { ErrorReply, type Reply } from "../resp/reply-reader.ts";
import { RespWriter } from "../resp/writer.ts";
import type { KeyQuery, TargetReader } from "../sink/sink.ts";
import type { Connection } from "../wire/connection.ts";
import type { ClusterNodes } from "./nodes.ts";

const ATTEMPTS = 10;

/** Reads keys from a cluster. ClusterNodes owns the connections. */
export class ClusterReader implements TargetReader {
  readonly #nodes: ClusterNodes;

  constructor(nodes: ClusterNodes) {
    this.#nodes = nodes;
  }

  async query(queries: readonly KeyQuery[]): Promise<Reply[]> {
    const replies: Reply[] = queries.map(() => null);
    let open = queries.map((query, index) => ({ query, index }));
    for (let attempt = 1; open.length > 0; attempt++) {
      const byNode = new Map<Connection, typeof open>();
      for (const item of open) {
        const address = await this.#nodes.addressOf(keySlot(item.query.key));
        const node = await this.#nodes.at(address);
        const items = byNode.get(node) ?? [];
        byNode.set(node, items);
        items.push(item);
      }
      const moved: typeof open = [];
      const ask = async ([node, items]: [Connection, typeof open]) => {
        const writer = new RespWriter();
        for (const { query } of items) writer.command(query.argv);
        const found = await node.exchange(writer.take(), items.length);
        items.forEach((item, at) => {
          const reply = found[at] ?? null;
          const again = reply instanceof ErrorReply && /^(MOVED|ASK|TRYAGAIN)/.test(reply.message);
          if (again && attempt < ATTEMPTS) moved.push(item);
          else replies[item.index] = reply;
        });
      };
      await Promise.all(Array.from(byNode, ask));
      if (moved.length > 0) await this.#nodes.refresh();
      open = moved;
    }
    return replies;
  }

  async now(): Promise<number> {
    const [master] = await this.#nodes.masters();
    if (master === undefined) return Date.now();
    const node = await this.#nodes.at(master.address);
    const [seconds, micros] = await node.call<readonly Buffer[]>("TIME");
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
  }

  async *pages(count: number): AsyncGenerator<{ db: number; keys: readonly Buffer[] }> {
    for (const { address } of await this.#nodes.masters()) {
      const node = await this.#nodes.at(address);
      let cursor = "0";
      do {
        const page = await node.call<readonly [Buffer, readonly Buffer[]]>(
          "SCAN",
          cursor,
          "COUNT",
          count,
        );
        cursor = String(page[0]);
        yield { db: 0, keys: page[1] };
      } while (cursor !== "0");
    }
  }

  close(): void {}
}
