/**
 * A sync task under chaos: a source with a writer that never rests, a target, and somebody who listens to
 * every command that the target carries out.
 *
 *   writer --INCR, RPUSH, APPEND, HINCRBY--> source ---- sync task on some node ----> target --MONITOR--> epochs
 *
 * None of the commands can be applied twice, left out or reordered without a trace. Every transaction
 * of a run sets the checkpoint with its epoch, so the epochs that the target carried out say who wrote.
 */
import { connect as connectSocket, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type Redis } from "@ropeway/core";
import { verify } from "@ropeway/sync";
import { eventually, type RedisServer, startRedis } from "@ropeway/testkit";
import type { Cluster } from "../src/cluster.ts";

/** What was seen of one sync task. */
export interface SyncReport {
  readonly writes: number;
  readonly keys: number;
  readonly different: number;
  /** Runs that wrote at the target, by their epochs. */
  readonly writers: number;
  readonly wentBack: number;
  /** Full synchronisations that the source was asked for. */
  readonly fullSyncs: number;
}

const CHECKPOINT = /"HMSET" "[^"]*checkpoint:0".*?"epoch" "(\d+)"/i;

/** A source, a target and what goes on between them. */
export class SyncLoad {
  readonly #servers: readonly RedisServer[];
  readonly #source: Redis;
  readonly #monitor: Socket;
  readonly #epochs: number[] = [];
  readonly #stop = new AbortController();
  #writing: Promise<number> | undefined;
  #taskId = "";

  private constructor(servers: readonly RedisServer[], source: Redis) {
    this.#servers = servers;
    this.#source = source;
    const { hostname, port } = new URL(this.#url(1));
    this.#monitor = connectSocket(Number(port), hostname);
    this.#monitor.write("MONITOR\r\n");
    createInterface(this.#monitor).on("line", (line) => {
      const epoch = CHECKPOINT.exec(line)?.[1];
      if (epoch !== undefined) this.#epochs.push(Number(epoch));
    });
  }

  static async start(): Promise<SyncLoad> {
    const source = await startRedis({ config: ["repl-backlog-size 64mb"] });
    const target = await startRedis();
    return new SyncLoad([source, target], await connect(source.url));
  }

  /** Creates the task, and writes from now on. */
  async create(cluster: Cluster, name: string): Promise<string> {
    const config = { from: this.#url(0), to: this.#url(1) };
    const wish = { name, type: "sync", config, immortal: true, start: true };
    this.#taskId = (await cluster.tasks.create(wish)).task.taskId;
    this.#writing = this.#write();
    return this.#taskId;
  }

  /** Ends the writing, waits until the target has everything, and compares. */
  async examine(): Promise<SyncReport> {
    this.#stop.abort();
    const writes = (await this.#writing) ?? 0;
    const target = await connect(this.#url(1));
    await eventually(
      async () => {
        const count = await target.send(["GET", "counter"]);
        if (Number(count) !== writes) throw new Error(`${writes} writes, ${count} arrived`);
      },
      { withinMs: 60_000 },
    );
    await target.close();
    const { keys, different } = await verify({
      from: this.#url(0),
      to: this.#url(1),
      name: this.#taskId,
    });
    const info = String(await this.#source.send(["INFO", "stats"]));
    return {
      ...{ writes, keys, different },
      writers: new Set(this.#epochs).size,
      wentBack: this.#epochs.filter((epoch, n) => epoch < (this.#epochs[n - 1] ?? 0)).length,
      fullSyncs: Number(/sync_full:(\d+)/.exec(info)?.[1]),
    };
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#writing?.catch(() => {});
    this.#monitor.destroy();
    await this.#source.close();
    for (const server of this.#servers) await server.close();
  }

  async #write(): Promise<number> {
    let writes = 0;
    for (; !this.#stop.signal.aborted; writes++) {
      const n = String(writes);
      await Promise.all([
        this.#source.send(["INCR", "counter"]),
        this.#source.send(["RPUSH", `list:${writes % 50}`, n]),
        this.#source.send(["APPEND", `text:${writes % 50}`, `${n},`]),
        this.#source.send(["HINCRBY", "sums", `field${writes % 7}`, n]),
      ]);
      await sleep(10);
    }
    return writes;
  }

  #url(which: 0 | 1): string {
    return (this.#servers[which] as RedisServer).url;
  }
}
