/**
 * The load of a sync task: a source under constant writes, a target, and a MONITOR connection that reads
 * every command of the target.
 *
 *   writer --INCR, RPUSH, APPEND, HINCRBY--> source ---- sync task on some node ----> target --MONITOR--> epochs
 *
 * The result shows whether any command was applied twice, omitted or reordered. Every transaction of a run
 * sets the checkpoint with its epoch, so the epochs at the target identify the writers.
 */
import { connect as connectSocket, type Socket } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type Redis } from "@ropeway/core";
import { verify } from "@ropeway/sync";
import { eventually, type RedisServer, startRedis } from "@ropeway/testkit";
import type { Cluster } from "../src/cluster.ts";

/** The results of one sync task. */
export interface SyncReport {
  readonly writes: number;
  readonly keys: number;
  readonly different: number;
  /** The number of runs that wrote to the target, by epoch. */
  readonly writers: number;
  readonly wentBack: number;
  /** The number of full synchronisations of the source. */
  readonly fullSyncs: number;
}

const CHECKPOINT = /"HMSET" "[^"]*checkpoint:0".*?"epoch" "(\d+)"/i;

/** A source and a target with a sync task between them. */
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

  /** Creates the task and starts writing. */
  async create(cluster: Cluster, name: string): Promise<string> {
    const config = { from: this.#url(0), to: this.#url(1) };
    const wish = { name, type: "sync", config, immortal: true, start: true };
    this.#taskId = (await cluster.tasks.create(wish)).task.taskId;
    this.#writing = this.#write();
    return this.#taskId;
  }

  /** Stops writing, waits until the target has all writes, and compares both servers. */
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
