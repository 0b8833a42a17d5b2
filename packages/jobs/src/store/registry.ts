/** The names of all queues under a prefix. */
import type { Redis } from "@ropeway/core";
import { queuesKey } from "../keys.ts";
import { registerScript } from "../scripts.ts";

export async function registerQueue(redis: Redis, prefix: string, name: string): Promise<void> {
  await redis.run(registerScript, [queuesKey(prefix)], [name]);
}

export async function unregisterQueue(redis: Redis, prefix: string, name: string): Promise<void> {
  const key = queuesKey(prefix);
  await redis.send(["SREM", key, name], { key, repeatable: true });
}

/** The names in alphabetical order. */
export async function registeredQueues(redis: Redis, prefix: string): Promise<string[]> {
  const key = queuesKey(prefix);
  const options = { key, repeatable: true };
  const names = await redis.send<readonly string[]>(["SMEMBERS", key], options);
  return [...names].sort();
}

export async function isRegistered(redis: Redis, prefix: string, name: string): Promise<boolean> {
  const key = queuesKey(prefix);
  return (await redis.send(["SISMEMBER", key, name], { key, repeatable: true })) === 1;
}
