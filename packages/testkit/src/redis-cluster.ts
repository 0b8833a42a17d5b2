// A Redis Cluster of masters with an equal share of the slots each, and optionally one replica each.
//
// It sends the commands that redis-cli would send, because redis-cli may not be installed. Every
// change waits until *all* running nodes report it, because a test may query any of them next.
import { ClusterView } from "./cluster-view.ts";
import { TestkitError } from "./errors.ts";
import { eventually } from "./eventually.ts";
import type { RedisOptions } from "./redis-options.ts";
import { type RedisServer, startRedis } from "./redis-server.ts";
import { orClose, together } from "./together.ts";

const SLOTS = 16_384;
const SETTLE_WITHIN_MS = 30_000;

/** Options of `startCluster`. */
export interface ClusterOptions
  extends Pick<RedisOptions, "config" | "appendonly" | "password" | "version"> {
  /** @default 3 */
  readonly masters?: number;
  /** Replicas of each master. @default 0 */
  readonly replicas?: 0 | 1;
  /** cluster-node-timeout, after which a silent node is failed over. @default 2000 */
  readonly nodeTimeoutMs?: number;
}

/** Starts the nodes, joins them and waits until all of them report a healthy cluster. */
export async function startCluster(options: ClusterOptions = {}): Promise<RedisCluster> {
  const { masters = 3, replicas = 0 } = options;
  const count = masters * (1 + replicas);
  const nodes = await together(Array.from({ length: count }, () => startNode(options)));
  return orClose(new RedisCluster(nodes), async (cluster) => {
    await assemble(nodes, masters);
    await cluster.settled();
  });
}

function startNode(options: ClusterOptions): Promise<RedisServer> {
  const { config = [], nodeTimeoutMs = 2000, appendonly, password, version } = options;
  const clustered = [
    "cluster-enabled yes",
    "cluster-config-file nodes.conf",
    `cluster-node-timeout ${nodeTimeoutMs}`,
    "repl-diskless-sync-delay 0",
    ...(password === undefined ? [] : [`masterauth "${password}"`]),
  ];
  return startRedis({
    ...(appendonly && { appendonly }),
    ...(password && { password }),
    ...(version && { version }),
    config: [...clustered, ...config],
  });
}

async function assemble(nodes: readonly RedisServer[], masterCount: number): Promise<void> {
  const masters = nodes.slice(0, masterCount);
  // Slots and epochs are set before the nodes meet, so that there are no conflicts to resolve.
  await Promise.all(
    masters.map(async (node, index) => {
      const from = Math.floor((SLOTS * index) / masterCount);
      const to = Math.floor((SLOTS * (index + 1)) / masterCount);
      const slots = Array.from({ length: to - from }, (_, offset) => from + offset);
      await node.command("CLUSTER", "ADDSLOTS", ...slots);
      await node.command("CLUSTER", "SET-CONFIG-EPOCH", index + 1);
    }),
  );
  // Each node meets each other node, because gossip about other nodes is slow.
  for (const [index, node] of nodes.entries()) {
    for (const other of nodes.slice(index + 1)) {
      await node.command("CLUSTER", "MEET", other.host, other.port);
    }
  }
  await Promise.all(
    nodes.slice(masterCount).map((replica, index) => replicate(replica, masters[index])),
  );
}

async function replicate(replica: RedisServer, master: RedisServer | undefined): Promise<void> {
  const id = await master?.command("CLUSTER", "MYID");
  // Redis refuses this until the handshake of the two is complete.
  await eventually(() => replica.command("CLUSTER", "REPLICATE", String(id)), {
    withinMs: SETTLE_WITHIN_MS,
  });
}

/** Hooks during a migration, when moved keys give `-ASK` and partly moved ones `-TRYAGAIN`. */
export interface MoveSlotOptions {
  /** Runs when the slot is importing and migrating, before any key moves. */
  readonly beforeKeys?: () => Promise<void>;
  /** Runs when all keys have moved, before the slot gets its new owner. */
  readonly afterKeys?: () => Promise<void>;
}

/** The running cluster. */
export class RedisCluster implements AsyncDisposable {
  readonly nodes: readonly RedisServer[];

  constructor(nodes: readonly RedisServer[]) {
    this.nodes = nodes;
  }

  /** `redis-cluster://:password@host:port,...` with all nodes. */
  get url(): string {
    const password = this.nodes[0]?.password;
    const secret = password === undefined ? "" : `:${encodeURIComponent(password)}@`;
    return `redis-cluster://${secret}${this.nodes.map(({ host, port }) => `${host}:${port}`).join(",")}`;
  }

  /** The slot a key belongs to. */
  async slotOf(key: string): Promise<number> {
    return Number(await this.#anyNode().command("CLUSTER", "KEYSLOT", key));
  }

  /** The master that owns a slot, or a key's slot. */
  async nodeOf(slotOrKey: number | string): Promise<RedisServer> {
    const slot = typeof slotOrKey === "number" ? slotOrKey : await this.slotOf(slotOrKey);
    const view = await this.#view();
    return this.#nodeById(view.ownerOf(slot));
  }

  /** The replica of a master. */
  async replicaOf(master: RedisServer): Promise<RedisServer> {
    const view = await this.#view();
    const [id] = view.replicasOf(await idOf(master));
    if (id === undefined) throw new TestkitError("NOT_RUNNING", `${master.url} has no replica`);
    return this.#nodeById(id);
  }

  /** Moves a slot with its keys to another master, as resharding does. */
  async moveSlot(slot: number, to: RedisServer, options: MoveSlotOptions = {}): Promise<void> {
    const from = await this.nodeOf(slot);
    if (from === to) return;
    const [fromId, toId] = [await idOf(from), await idOf(to)];
    await to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", fromId);
    await from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", toId);
    await options.beforeKeys?.();
    await migrateKeys(slot, from, to);
    await options.afterKeys?.();
    // The new owner first, as redis-cli does, so that the slot always has an owner.
    const masters = await this.#masters();
    for (const node of [to, from, ...masters.filter((node) => node !== to && node !== from)]) {
      await node.command("CLUSTER", "SETSLOT", slot, "NODE", toId);
    }
    await this.#agree((view) => view.ownerOf(slot) === toId, `slot ${slot} is not on ${to.url}`);
  }

  /**
   * Makes the replica of `master` take its slots and waits until all running nodes report it. "kill"
   * kills the master first (start() restarts it as a replica). "command" swaps the two.
   */
  async failover(master: RedisServer, by: "kill" | "command" = "kill"): Promise<RedisServer> {
    const replica = await this.replicaOf(master);
    const id = await idOf(replica);
    const slot = (await this.#view()).firstSlotOf(await idOf(master));
    if (by === "kill") await master.kill9();
    else await replica.command("CLUSTER", "FAILOVER");
    await this.#agree((view) => view.ownerOf(slot) === id, `${replica.url} has not taken over`);
    return replica;
  }

  /** Waits until all running nodes report `cluster_state:ok` and are connected to each other. */
  async settled(): Promise<void> {
    await this.#agree((view) => view.healthy(this.nodes.length), "the cluster is not complete");
  }

  async #agree(condition: (view: ClusterView) => boolean, otherwise: string): Promise<void> {
    await eventually(
      async () => {
        for (const node of this.#running()) {
          const view = await ClusterView.of(node);
          if (!view.ok || !condition(view)) {
            throw new TestkitError("GAVE_UP", `${otherwise}, according to ${node.url}:\n${view}`);
          }
        }
      },
      { withinMs: SETTLE_WITHIN_MS },
    );
  }

  #running(): RedisServer[] {
    return this.nodes.filter((node) => node.running);
  }

  #anyNode(): RedisServer {
    const [node] = this.#running();
    if (node === undefined)
      throw new TestkitError("NOT_RUNNING", "no node of the cluster is running");
    return node;
  }

  #view(): Promise<ClusterView> {
    return ClusterView.of(this.#anyNode());
  }

  async #masters(): Promise<RedisServer[]> {
    const view = await this.#view();
    const ids = await Promise.all(this.#running().map(idOf));
    return this.#running().filter((_, index) => view.isMaster(ids[index] ?? ""));
  }

  async #nodeById(id: string | undefined): Promise<RedisServer> {
    const port = (await this.#view()).portOf(id ?? "");
    const node = this.nodes.find((candidate) => candidate.port === port);
    if (node === undefined)
      throw new TestkitError("NOT_RUNNING", `no node of this cluster has id ${id}`);
    return node;
  }

  async close(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.close()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

async function idOf(node: RedisServer): Promise<string> {
  return String(await node.command("CLUSTER", "MYID"));
}

async function migrateKeys(slot: number, from: RedisServer, to: RedisServer): Promise<void> {
  const secret = from.password === undefined ? [] : ["AUTH", from.password];
  for (;;) {
    const keys = (await from.command("CLUSTER", "GETKEYSINSLOT", slot, 100)) as string[];
    if (keys.length === 0) return;
    await from.command("MIGRATE", to.host, to.port, "", 0, 5000, ...secret, "KEYS", ...keys);
  }
}
