/** The contenders, which copy a data set from one server to another. Each returns its time. */
import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import { open } from "node:fs/promises";
import { provide } from "@ropeway/provide";
import type { RedisServer } from "@ropeway/testkit";
import type { Parsed, Synced, WorkerOrder } from "./worker.ts";

const WORKER = new URL("./worker.ts", import.meta.url);

/** Runs a worker process and returns its result. The worker uses the build, as users do. */
export async function work<R extends Synced | Parsed>(order: WorkerOrder): Promise<R> {
  const worker = startWorker(order);
  const [message] = (await once(worker, "message")) as [R | { error: string }];
  await once(worker, "exit");
  if ("error" in message) throw new Error(message.error);
  return message;
}

/** Starts a worker process. */
export function startWorker(order: WorkerOrder): ChildProcess {
  const worker = fork(WORKER, [], { execArgv: ["--import", "tsx", "--expose-gc"] });
  worker.send(order);
  return worker;
}

/**
 * The milliseconds until a native replica has caught up. Afterwards the target drops its replication backlog, because
 * it would copy every later write into it.
 */
export async function replicaOf(source: RedisServer, target: RedisServer): Promise<number> {
  const began = performance.now();
  await target.command("REPLICAOF", source.host, String(source.port));
  for (;;) {
    const info = String(await target.command("INFO", "replication"));
    if (/master_link_status:up/.test(info)) break;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  const ms = performance.now() - began;
  await target.command("CONFIG", "SET", "repl-backlog-ttl", "1");
  await target.command("REPLICAOF", "NO", "ONE");
  while (/repl_backlog_active:1/.test(String(await target.command("INFO", "replication")))) {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  return ms;
}

/** The milliseconds until `redis-cli --pipe` has the last reply to the commands of a file. */
export async function pipe(file: string, target: RedisServer): Promise<number> {
  const [program = "redis-cli", ...first] = (await provide("redis-cli")).command;
  const input = await open(file);
  const began = performance.now();
  const cli = spawn(program, [...first, "-h", target.host, "-p", String(target.port), "--pipe"], {
    stdio: [input.fd, "ignore", "inherit"],
  });
  const [code] = await once(cli, "exit");
  const ms = performance.now() - began;
  await input.close();
  if (code !== 0) throw new Error(`redis-cli --pipe exited with ${code}`);
  return ms;
}
