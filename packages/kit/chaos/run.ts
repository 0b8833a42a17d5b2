/**
 * Kills (SIGKILL) or pauses (SIGSTOP) holders, readers, senders and receivers at random, and kills and restarts
 * Redis. The workers log their actions to another Redis, and the invariants are checked against that log.
 *
 *   npm run chaos -- kit                    40 kills, 1 GiB through a Redis of 64 MiB, then large-group.ts
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type Redis } from "@ropeway/core";
import {
  eventually,
  type RedisServer,
  type Script,
  spawnScript,
  startRedis,
} from "@ropeway/testkit";
import { Chat } from "../src/chat/index.ts";
import { Files } from "../src/files/index.ts";
import { Mailbox } from "../src/mailbox/index.ts";

/** Twice the time to live of locks, permits and leases, so that a paused worker loses them. */
const PAUSE_MS = 1_200;
const WORKER = new URL("./worker.ts", import.meta.url);

const ROLES = ["lock", "semaphore", "reader", "sender"] as const;
type Role = (typeof ROLES)[number];

/** The number of workers, messages and faults. */
export interface ChaosPlan {
  readonly kills: number;
  readonly killEveryMs: number;
  readonly redisKills: number;
  readonly workersPerRole: number;
  /** The roles to run. @default all */
  readonly roles?: readonly Role[];
  readonly messages: number;
  readonly fileBytes: number;
  readonly seed: number;
}

/** One line of the result. */
export interface Invariant {
  readonly name: string;
  readonly holds: boolean;
  readonly seen: string;
}

/** Runs all tests and returns their invariants. */
export async function chaosKit(plan: ChaosPlan): Promise<readonly Invariant[]> {
  return [...(await killAtRandom(plan)), ...(await bigFile(plan))];
}

/** Runs the tests without the large file. */
export async function killAtRandom(plan: ChaosPlan): Promise<Invariant[]> {
  await using server = await startRedis({ appendonly: true });
  await using logServer = await startRedis();
  await using redis = await connect(server.url);
  await using log = await connect(logServer.url);
  const random = randomOf(plan.seed);
  const room = await new Chat<string>(redis).create({
    sender: "parent",
    recipients: ["reader"],
    message: "first",
    id: "room",
  });
  const mailbox = new Mailbox<number>(redis, "box");
  for (let n = 0; n < plan.messages; n++) await mailbox.send(n);
  const { roles = ROLES } = plan;
  const crew = new Crew(server, logServer);
  const all = roles.flatMap((role) => Array.from({ length: plan.workersPerRole }, () => role));
  await Promise.all(all.map((role) => crew.start(role)));
  const seen = readRoom(redis, room.id);
  let redisKills = plan.redisKills;
  for (let round = 1; round <= plan.kills; round++) {
    await sleep(plan.killEveryMs * (0.5 + random()));
    const role = roles[Math.floor(random() * roles.length)] as string;
    if (random() < 0.3) await crew.pause(role, PAUSE_MS);
    else await crew.kill(role);
    if (redisKills > 0 && round % 8 === 0) {
      redisKills -= 1;
      await server.kill9();
      await server.start();
    }
  }
  await eventually(async () => expectEmpty(await mailbox.counts()), { withinMs: 60_000 });
  const read = async (role: string) =>
    (await log.send<string[]>(["LRANGE", role, "0", "-1"])).map((line) => line.split(" "));
  for (const role of roles) {
    await eventually(
      async () => {
        if ((await read(role)).length === 0) throw new Error(`${role} has logged nothing yet`);
      },
      { withinMs: 60_000 },
    );
  }
  await crew.close();
  const sent = (await read("sender")).map(([, , id]) => Number(id));
  const ids = await seen(Math.max(1, ...sent));
  return [
    ...lockInvariants(await read("lock")),
    semaphoreInvariant(await read("semaphore"), 3),
    mailboxInvariant(await read("reader"), plan.messages),
    {
      name: "chat-dense",
      holds: ids.every((id, i) => id === i + 1) && sent.every((id) => id <= ids.length),
      seen: `sent=${sent.length} read=${ids.length}`,
    },
    {
      name: "faults",
      holds: crew.kills + crew.pauses === plan.kills,
      seen: `kills=${crew.kills} pauses=${crew.pauses} redisKills=${plan.redisKills - redisKills}`,
    },
  ];
}

function expectEmpty({ waiting, taken }: { waiting: number; taken: number }): void {
  if (waiting + taken > 0) throw new Error(`${waiting} messages are waiting, ${taken} are taken`);
}

/**
 * Reads the room from a live feed. The returned function waits for an id and returns all ids seen. Only one
 * acknowledgement is in flight at a time, for the newest message read. With one round trip per message the
 * reader would be slower than the senders on a busy machine.
 */
function readRoom(redis: Redis, room: string): (last: number) => Promise<readonly number[]> {
  const controller = new AbortController();
  const ids: number[] = [];
  const chat = new Chat<string>(redis);
  let acknowledging: Promise<unknown> | undefined;
  const acknowledge = (id: number) => {
    acknowledging ??= chat
      .room(room)
      .acknowledge("reader", id)
      .catch(() => {}) // Redis is restarting; a later acknowledgement includes this message
      .finally(() => {
        acknowledging = undefined;
      });
  };
  const feeding = (async () => {
    while (!controller.signal.aborted) {
      try {
        for await (const event of chat.feed("reader", { signal: controller.signal })) {
          if (event.type !== "message" || event.id <= (ids.at(-1) ?? 0)) continue;
          ids.push(event.id);
          acknowledge(event.id);
        }
      } catch {
        await sleep(20); // Redis is restarting
      }
    }
  })();
  return async (last) => {
    await eventually(
      () => {
        if ((ids.at(-1) ?? 0) < last) throw new Error(`read up to ${ids.at(-1)} of ${last}`);
      },
      { withinMs: 30_000 },
    );
    controller.abort();
    await feeding;
    await acknowledging;
    return ids;
  };
}

/** The time from the first to the last log entry of one holder. */
interface Hold {
  readonly id: string;
  readonly from: number;
  to: number;
}

/** All processes use the clock of the machine, so their times are comparable. */
function holdsOf(lines: readonly string[][]): Hold[] {
  const holds = new Map<string, Hold>();
  for (const [, what, id = "", at] of lines) {
    if (what !== "held") continue;
    const hold = holds.get(id);
    if (hold === undefined) holds.set(id, { id, from: Number(at), to: Number(at) });
    else hold.to = Number(at);
  }
  return [...holds.values()].sort((a, b) => a.from - b.from);
}

/** The maximum number of holders at the same time. */
function mostAtOnce(holds: readonly Hold[]): number {
  let most = 0;
  for (const { from } of holds) {
    most = Math.max(most, holds.filter((hold) => hold.from <= from && from <= hold.to).length);
  }
  return most;
}

function lockInvariants(lines: readonly string[][]): Invariant[] {
  const holds = holdsOf(lines);
  const most = mostAtOnce(holds);
  const backwards = holds.filter(({ id }, i) => i > 0 && Number(id) <= Number(holds[i - 1]?.id));
  return [
    { name: "lock-one-holder", holds: most === 1, seen: `holds=${holds.length} most=${most}` },
    {
      name: "lock-fences-rise",
      holds: backwards.length === 0,
      seen: `backwards=${backwards.length}`,
    },
  ];
}

function semaphoreInvariant(lines: readonly string[][], limit: number): Invariant {
  const holds = holdsOf(lines);
  const most = mostAtOnce(holds);
  return {
    name: "semaphore-limit",
    holds: most <= limit && most > 0,
    seen: `holds=${holds.length} most=${most} limit=${limit}`,
  };
}

function mailboxInvariant(lines: readonly string[][], messages: number): Invariant {
  const got = lines.filter(([, what]) => what === "got").map(([, , n]) => Number(n));
  const lost = messages - new Set(got).size;
  return {
    name: "mailbox-none-lost",
    holds: lost === 0,
    seen: `messages=${messages} deliveries=${got.length} lost=${lost}`,
  };
}

/** Sends 1 GiB through 64 MiB to three receivers. One is killed and restarted, one never connects. */
async function bigFile(plan: ChaosPlan): Promise<Invariant[]> {
  const folder = await mkdtemp(join(tmpdir(), "ropeway-chaos-"));
  try {
    await using server = await startRedis({
      config: ["maxmemory 64mb", "maxmemory-policy noeviction"],
    });
    await using logServer = await startRedis();
    await using redis = await connect(server.url);
    const path = join(folder, "big.bin");
    await writePseudoRandom(path, plan.fileBytes);
    const crew = new Crew(server, logServer);
    const files = new Files(redis, "files:", {
      chunkBytes: 1_048_576,
      limitBytes: 24 * 1_048_576,
      leaseMs: 30_000,
    });
    const target = (name: string) => join(folder, name);
    const one = await crew.start("receiver", { NAME: "one", FOLDER: target("one") });
    const two = await crew.start("receiver", { NAME: "two", FOLDER: target("two") });
    let sent = 0;
    const publishing = files.publish(path, {
      receivers: ["one", "two", "never"],
      onProgress: ({ bytes }) => {
        sent = bytes;
      },
    });
    await eventually(
      () => {
        if (sent < Math.min(20 * 1_048_576, plan.fileBytes / 3)) throw new Error("not yet");
      },
      { withinMs: 30_000 },
    );
    await two.kill9();
    const again = await crew.start("receiver", { NAME: "two", FOLDER: target("two") });
    const published = await publishing;
    for (const receiver of [one, again])
      await receiver.waitForLine(/^saved$/, { withinMs: 60_000 });
    const digests = await Promise.all(
      ["one", "two"].map((name) => digestOf(join(target(name), "big.bin"))),
    );
    await crew.close();
    await files.end();
    for (const name of ["one", "two", "never"])
      await new Files(redis, "files:").receive(name, () => {});
    const left = await eventually(
      async () => {
        const keys = (await redis.send<string[]>(["KEYS", "*"])).filter(
          (key) => !/^(lock-fence|kit-wake)/.test(key),
        );
        if (keys.length > 0) throw new Error(keys.join(" "));
        return keys;
      },
      { withinMs: 70_000 },
    );
    const info = String(await redis.send(["INFO", "memory"]));
    const peak = Number(/used_memory_peak:(\d+)/.exec(info)?.[1]);
    return [
      {
        name: "files-sha256-equal",
        holds: digests.every((digest) => digest === published.sha256),
        seen: `bytes=${published.bytes} peakMemory=${peak}`,
      },
      {
        name: "files-absent-dropped",
        holds: published.dropped === 1,
        seen: `dropped=${published.dropped}`,
      },
      { name: "files-redis-empty", holds: left.length === 0, seen: `keys=${left.length}` },
    ];
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The worker processes. A killed one is replaced in the background. */
class Crew {
  readonly #env: Readonly<Record<string, string>>;
  readonly #workers: { role: string; name: string; script: Script }[] = [];
  readonly #replacing: Promise<unknown>[] = [];
  #count = 0;
  kills = 0;
  pauses = 0;

  constructor(server: RedisServer, logServer: RedisServer) {
    this.#env = { REDIS_URL: server.url, LOG_URL: logServer.url };
  }

  async start(role: string, env: Readonly<Record<string, string>> = {}): Promise<Script> {
    this.#count += 1;
    const name = `w${this.#count}`;
    const script = await spawnScript(WORKER, {
      env: { ...this.#env, ROLE: role, NAME: name, ...env },
    });
    await script.waitForLine(/^ready$/, { withinMs: 60_000 });
    this.#workers.push({ role, name, script });
    return script;
  }

  async kill(role: string): Promise<void> {
    const of = (worker: { role: string }) => worker.role === role;
    if (!this.#workers.some(of)) await this.#replaced();
    const [worker] = this.#workers.splice(this.#workers.findIndex(of), 1);
    if (worker === undefined) throw new Error(`no ${role} to kill`);
    await worker.script.kill9();
    this.kills += 1;
    this.#replacing.push(this.start(role));
  }

  /** Sends SIGSTOP, then SIGCONT. */
  async pause(role: string, ms: number): Promise<void> {
    const of = (worker: { role: string }) => worker.role === role;
    if (!this.#workers.some(of)) await this.#replaced();
    const worker = this.#workers.find(of);
    if (worker === undefined) throw new Error(`no ${role} to pause`);
    worker.script.pause();
    await sleep(ms);
    worker.script.resume();
    this.pauses += 1;
  }

  async close(): Promise<void> {
    await this.#replaced();
    await Promise.all(this.#workers.map(({ script }) => script.kill9()));
  }

  async #replaced(): Promise<void> {
    await Promise.all(this.#replacing.splice(0));
  }
}

async function writePseudoRandom(path: string, bytes: number): Promise<void> {
  const handle = await open(path, "w");
  try {
    for (let at = 0, n = 0; at < bytes; n++) {
      const block = Buffer.alloc(
        Math.min(1_048_576, bytes - at),
        createHash("sha256").update(String(n)).digest(),
      );
      await handle.write(block);
      at += block.length;
    }
  } finally {
    await handle.close();
  }
}

async function digestOf(path: string): Promise<string> {
  const digest = createHash("sha256");
  for await (const chunk of createReadStream(path)) digest.update(chunk);
  return digest.digest("hex");
}

/** Repeatable random numbers (mulberry32). */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The lines that `npm run chaos` prints. */
export function chaosLines(invariants: readonly Invariant[]): string[] {
  return invariants.map(({ name, holds, seen }) => {
    return `INVARIANT kit.${name} ${seen} ${holds ? "OK" : "VIOLATED"}`;
  });
}
