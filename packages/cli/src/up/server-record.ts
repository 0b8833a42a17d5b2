/**
 * What is known about the Redis of a home between two runs of `up`: redis/server.json. The port is
 * written before a server starts, its process right after; so there is no instant at which a server
 * runs that the next `up` would not find by one of them.
 */
import { readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { connect } from "@ropeway/core";
import { sleep } from "@ropeway/core/internal";
import { readInfo } from "../store.ts";
import type { Home } from "./home.ts";
import { birthOf, isAlive, type ProcessBirth } from "./process-birth.ts";

/** Where the server listens and which process it is, as far as known. */
export interface ServerRecord {
  readonly port: number;
  readonly process?: ProcessBirth;
}

/** In the server's own folder. */
export const SERVER_SOCKET = "redis.sock";
const ASK_WITHIN_MS = 1_000;
const END_WITHIN_MS = 10_000;
const LOOK_MS = 25;

/** The last record; undefined if there is none or it cannot be read. */
export async function readRecord(home: Home): Promise<ServerRecord | undefined> {
  try {
    const record = JSON.parse(await readFile(recordFile(home), "utf8"));
    return Number.isInteger(record?.port) ? record : undefined;
  } catch {
    return undefined; // the first start, or a file that someone edited: both start afresh
  }
}

export async function writeRecord(home: Home, record: ServerRecord): Promise<void> {
  const partial = `${recordFile(home)}.partial`;
  await writeFile(partial, `${JSON.stringify(record)}\n`);
  await rename(partial, recordFile(home));
}

/** The server that an earlier `up` left running, if there is one. */
export async function leftServer(
  home: Home,
  record: ServerRecord | undefined,
): Promise<ProcessBirth | undefined> {
  if (record === undefined) return undefined;
  if (record.process !== undefined && (await isAlive(record.process))) return record.process;
  const pid = await serverOf(home, record.port);
  // A server in another container reports its pid there, which may be any process here.
  return pid !== undefined && (await isServer(pid)) ? birthOf(pid) : undefined;
}

async function isServer(pid: number): Promise<boolean> {
  if (process.platform !== "linux") return true;
  const name = await readFile(`/proc/${pid}/comm`, "utf8").catch(() => "");
  return /redis|valkey/.test(name);
}

/** Ends a process that is not our child: it saves and exits, or is killed after a while. */
export async function endProcess(target: ProcessBirth): Promise<void> {
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    const until = performance.now() + END_WITHIN_MS;
    if (!(await isAlive(target))) return;
    process.kill(target.pid, signal);
    while (performance.now() < until) {
      if (!(await isAlive(target))) return;
      await sleep(LOOK_MS);
    }
  }
  throw new Error(`process ${target.pid} does not end, not even by SIGKILL`);
}

/**
 * The pid of this home's server if it responds on the port. Another program's server there is not
 * ours. INFO contains the configuration file that a server was started with.
 */
export async function serverOf(home: Home, port: number): Promise<number | undefined> {
  try {
    const name = "ropeway-up";
    const options = { name, connectWaitMs: ASK_WITHIN_MS, connectTimeoutMs: ASK_WITHIN_MS };
    await using redis = await connect(`redis://127.0.0.1:${port}`, options);
    const info = await readInfo(redis, "server");
    const isOurs = info.get("config_file") === configFile(home);
    return isOurs ? Number(info.get("process_id")) : undefined;
  } catch {
    return undefined; // no server, not ready yet, not a Redis, or one that refuses the login
  }
}

/** The Unix socket that a home's server listens on: a sign of life that other containers see too. */
export function serverSocket(home: Home): string {
  return join(home.redis, SERVER_SOCKET);
}

/** The file a home's server is started with. */
export function configFile(home: Home): string {
  return join(home.redis, "redis.conf");
}

function recordFile(home: Home): string {
  return join(home.redis, "server.json");
}
