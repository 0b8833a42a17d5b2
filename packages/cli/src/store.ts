/** Every command that the CLI itself sends to a Redis: questions about the server, never about data. */
import type { Redis } from "@ropeway/core";

/** The fields of INFO. */
export async function readInfo(
  redis: Redis,
  section: string = "default",
): Promise<ReadonlyMap<string, string>> {
  return fieldsOf(String(await redis.send(["INFO", section], { repeatable: true })));
}

/** The fields of CLUSTER INFO. */
export async function readClusterInfo(redis: Redis): Promise<ReadonlyMap<string, string>> {
  return fieldsOf(String(await redis.send(["CLUSTER", "INFO"], { repeatable: true })));
}

/** The master of every range of slots, each once. */
export async function readMasters(redis: Redis): Promise<{ host: string; port: number }[]> {
  type Slots = [number, number, [string, number]][];
  const slots = await redis.send<Slots>(["CLUSTER", "SLOTS"], { repeatable: true });
  const masters = new Map(slots.map(([, , [host, port]]) => [`${host}:${port}`, { host, port }]));
  return [...masters.values()];
}

/** One value of the server's configuration; undefined if there is none, or if the server refuses to return it. */
export async function readConfig(redis: Redis, name: string): Promise<string | undefined> {
  const reply = redis.send<string[]>(["CONFIG", "GET", name], { repeatable: true });
  const [, value] = await reply.catch(() => []);
  return value;
}

/** The server's time, in milliseconds since the epoch. */
export async function readTime(redis: Redis): Promise<number> {
  const [seconds, micros] = await redis.send<string[]>(["TIME"]);
  return Number(seconds) * 1_000 + Number(micros) / 1_000;
}

/** One round trip. */
export async function ping(redis: Redis): Promise<void> {
  await redis.send(["PING"]);
}

/** "name:value" lines as a map. */
export function fieldsOf(info: string): ReadonlyMap<string, string> {
  const lines = info.split(/\r?\n/).map((line) => /^([^#:]+):(.*)$/.exec(line));
  return new Map(lines.flatMap((match) => (match ? [[match[1] ?? "", match[2] ?? ""]] : [])));
}
