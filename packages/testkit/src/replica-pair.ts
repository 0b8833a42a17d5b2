import { TestkitError } from "./errors.ts";
import { eventually } from "./eventually.ts";
import { infoOf } from "./redis-info.ts";
import type { RedisOptions } from "./redis-options.ts";
import { type RedisServer, startRedis } from "./redis-server.ts";
import { orClose, together } from "./together.ts";

/** Options of both servers of a pair. */
export type ReplicaPairOptions = Pick<
  RedisOptions,
  "config" | "appendonly" | "password" | "version"
>;

/** Starts a master and a replica that has caught up with it. */
export async function startReplicaPair(options: ReplicaPairOptions = {}): Promise<ReplicaPair> {
  const servers = await together([startReplicable(options), startReplicable(options)]);
  const [master, replica] = servers as [RedisServer, RedisServer];
  return orClose(new ReplicaPair(master, replica), () => follow(replica, master));
}

/** A server that can be on either side of a replication. */
function startReplicable({ config = [], ...options }: ReplicaPairOptions): Promise<RedisServer> {
  // By default Redis delays the first synchronisation by seconds to wait for more replicas.
  const prompt = ["repl-diskless-sync-delay 0", "repl-ping-replica-period 1"];
  const secret = options.password === undefined ? [] : [`masterauth "${options.password}"`];
  return startRedis({ ...options, config: [...prompt, ...secret, ...config] });
}

/** Makes `replica` follow `master`, now and after restarts, and waits until it has caught up. */
async function follow(replica: RedisServer, master: RedisServer): Promise<void> {
  await replica.command("REPLICAOF", master.host, master.port);
  await replica.command("CONFIG", "REWRITE");
  await caughtUp(replica, master);
}

async function caughtUp(replica: RedisServer, master: RedisServer): Promise<void> {
  await eventually(
    async () => {
      const [mine, theirs] = [
        await infoOf(replica, "replication"),
        await infoOf(master, "replication"),
      ];
      const link = mine.get("master_link_status");
      const [at, of] = [mine.get("slave_repl_offset"), theirs.get("master_repl_offset")];
      if (link !== "up" || at !== of) {
        throw new TestkitError("GAVE_UP", `link ${link}, replica at ${at} of ${of}`);
      }
    },
    { withinMs: 20_000 },
  );
}

/** A master and its replica; `promote()` swaps them. */
export class ReplicaPair implements AsyncDisposable {
  #master: RedisServer;
  #replica: RedisServer;

  constructor(master: RedisServer, replica: RedisServer) {
    this.#master = master;
    this.#replica = replica;
  }

  get master(): RedisServer {
    return this.#master;
  }

  get replica(): RedisServer {
    return this.#replica;
  }

  /** Waits until the replica has everything the master has. */
  caughtUp(): Promise<void> {
    return caughtUp(this.#replica, this.#master);
  }

  /** Makes the replica the master. The old master follows it if it is running. */
  async promote(): Promise<void> {
    await this.#replica.command("REPLICAOF", "NO", "ONE");
    await this.#replica.command("CONFIG", "REWRITE");
    [this.#master, this.#replica] = [this.#replica, this.#master];
    if (this.#replica.running) await follow(this.#replica, this.#master);
  }

  async close(): Promise<void> {
    await Promise.all([this.#replica.close(), this.#master.close()]);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
