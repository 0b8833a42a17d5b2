// A master, its replica, and three Sentinels that agree on which server is the master.
//
// The periods of Sentinel are seconds long. SENTINEL DEBUG shortens them, in releases that have it, so
// that tests do not wait for them.
import { ReplyError, TestkitError } from "./errors.ts";
import { eventually } from "./eventually.ts";
import { type RedisServer, startRedis } from "./redis-server.ts";
import { type ReplicaPair, type ReplicaPairOptions, startReplicaPair } from "./replica-pair.ts";
import { orClose, together } from "./together.ts";

const QUORUM = 2;
const SETTLE_WITHIN_MS = 30_000;
const PERIODS = ["publish-period", "200", "info-period", "500", "max-desync", "200"];

/** Options of `startSentinelTrio`. */
export interface SentinelOptions extends ReplicaPairOptions {
  /** The name of the monitored master. @default "mymaster" */
  readonly name?: string;
  /** The silence after which a master counts as down. @default 1000 */
  readonly downAfterMs?: number;
}

/** Starts the servers and waits until all three Sentinels know each other and the replica. */
export async function startSentinelTrio(options: SentinelOptions = {}): Promise<SentinelTrio> {
  const { name = "mymaster", downAfterMs = 1000, ...pairOptions } = options;
  const pair = await startReplicaPair(pairOptions);
  const watch = { ...options, name, downAfterMs };
  const sentinels: RedisServer[] = [];
  await orClose(pair, async () => {
    sentinels.push(...(await together([1, 2, 3].map(() => startSentinel(watch, pair.master)))));
  });
  return orClose(new SentinelTrio({ name, pair, sentinels }), (trio) => trio.settled());
}

async function startSentinel(
  options: SentinelOptions & { name: string; downAfterMs: number },
  { host, port, password }: RedisServer,
): Promise<RedisServer> {
  const { name, downAfterMs, version } = options;
  const sentinel = await startRedis({
    sentinel: true,
    ...(version && { version }),
    config: [
      `sentinel monitor ${name} ${host} ${port} ${QUORUM}`,
      `sentinel down-after-milliseconds ${name} ${downAfterMs}`,
      `sentinel failover-timeout ${name} 5000`,
      ...(password === undefined ? [] : [`sentinel auth-pass ${name} "${password}"`]),
    ],
  });
  // Releases before 7.0 reply with an error and keep their default periods.
  await sentinel.command("SENTINEL", "DEBUG", ...PERIODS).catch((error: Error) => {
    if (!(error instanceof ReplyError)) throw error;
  });
  return sentinel;
}

/** The five servers. */
export class SentinelTrio implements AsyncDisposable {
  readonly name: string;
  readonly sentinels: readonly RedisServer[];
  /** Both data servers. `master()` returns the current master. */
  readonly servers: readonly [RedisServer, RedisServer];
  readonly #pair: ReplicaPair;

  constructor(parts: { name: string; pair: ReplicaPair; sentinels: readonly RedisServer[] }) {
    this.name = parts.name;
    this.sentinels = parts.sentinels;
    this.#pair = parts.pair;
    this.servers = [parts.pair.master, parts.pair.replica];
  }

  /** `redis-sentinel://:password@host:port,host:port,host:port/name`. */
  get url(): string {
    const { password } = this.#pair.master;
    const secret = password === undefined ? "" : `:${encodeURIComponent(password)}@`;
    const hosts = this.sentinels.map(({ host, port }) => `${host}:${port}`).join(",");
    return `redis-sentinel://${secret}${hosts}/${this.name}`;
  }

  /** The master that the running Sentinels agree on. */
  async master(): Promise<RedisServer> {
    const running = this.sentinels.filter((sentinel) => sentinel.running);
    const ports = await Promise.all(running.map((sentinel) => this.#masterPort(sentinel)));
    const [port] = ports;
    const master = this.servers.find((server) => server.port === port);
    if (master === undefined || ports.some((other) => other !== port)) {
      throw new TestkitError("GAVE_UP", `the Sentinels name the masters ${ports.join(", ")}`);
    }
    return master;
  }

  async #masterPort(sentinel: RedisServer): Promise<number> {
    const address = await sentinel.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", this.name);
    return Number((address as string[])[1]);
  }

  /**
   * Promotes the replica and waits until all Sentinels report it and the new master accepts writes.
   * "kill" kills the old master (start() restarts it as a replica). "command" sends SENTINEL FAILOVER
   * while both are healthy.
   */
  async failover(by: "kill" | "command" = "kill"): Promise<RedisServer> {
    const old = await this.master();
    if (by === "kill") {
      await old.kill9();
    } else {
      // Sentinel refuses with INPROG until the previous failover is complete.
      await eventually(() => this.sentinels[0]?.command("SENTINEL", "FAILOVER", this.name), {
        withinMs: SETTLE_WITHIN_MS,
      });
    }
    return eventually(
      async () => {
        const master = await this.master();
        const [role] = (await master.command("ROLE")) as string[];
        if (master === old || role !== "master") {
          throw new TestkitError("GAVE_UP", `${master.url} is the ${role} after the failover`);
        }
        return master;
      },
      { withinMs: SETTLE_WITHIN_MS },
    );
  }

  /** Waits until the replica follows the master and every Sentinel sees both servers and the other Sentinels. */
  async settled(): Promise<void> {
    await eventually(
      async () => {
        await this.#expectReplication();
        await Promise.all(this.sentinels.map((sentinel) => this.#expectFullView(sentinel)));
      },
      { withinMs: SETTLE_WITHIN_MS },
    );
  }

  // Asks the servers, because a Sentinel's view of a restarted server may be outdated.
  async #expectReplication(): Promise<void> {
    const master = await this.master();
    const replica = this.servers[master === this.servers[0] ? 1 : 0];
    const [role, , port, link] = (await replica.command("ROLE")) as (string | number)[];
    if (role !== "slave" || port !== master.port || link !== "connected") {
      throw new TestkitError("GAVE_UP", `${replica.url} is ${role} of ${port}, ${link}`);
    }
  }

  async #expectFullView(sentinel: RedisServer): Promise<void> {
    const master = fields(await sentinel.command("SENTINEL", "MASTER", this.name));
    const replicas = (await sentinel.command("SENTINEL", "SLAVES", this.name)) as string[][];
    const view = [
      master.get("flags"),
      ...replicas.map((replica) => fields(replica)).map((replica) => replica.get("flags")),
      `${master.get("num-other-sentinels")} others`,
    ].join(" ");
    if (view !== "master slave 2 others") {
      throw new TestkitError("GAVE_UP", `Sentinel ${sentinel.port} sees: ${view}`);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.sentinels.map((sentinel) => sentinel.close()));
    await this.#pair.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function fields(reply: unknown): Map<string, string> {
  const flat = reply as string[];
  const pairs: [string, string][] = [];
  for (let at = 0; at + 1 < flat.length; at += 2) pairs.push([flat[at] ?? "", flat[at + 1] ?? ""]);
  return new Map(pairs);
}
