// What a server says about a key through plain commands, in a form that tests can compare. It imports nothing
// of the package: what it finds does not depend on the code under test.

export type Word = string | number | Buffer;
export type Reply = string | number | Buffer | null | Error | readonly Reply[];

/** A connection; an error reply is thrown by `send` and is a value of `reply`. */
export interface Asker {
  send(...argv: Word[]): Promise<unknown>;
  reply(...argv: Word[]): Promise<unknown>;
}

export const latin1 = (bytes: Buffer): string => bytes.toString("latin1");

/** Orders tuples by their first element. */
export function byFirst(
  a: readonly [string, ...unknown[]],
  b: readonly [string, ...unknown[]],
): number {
  return a[0] < b[0] ? -1 : a[0] > b[0] ? 1 : 0;
}

/** What a server says about a key through plain commands. */
export async function askModel(redis: Asker, key: Buffer): Promise<unknown> {
  const type = String(await redis.send("TYPE", key));
  const texts = (reply: unknown) => (reply as Buffer[]).map(latin1);
  switch (type) {
    case "string":
      return latin1((await redis.send("GET", key)) as Buffer);
    case "list":
      return texts(await redis.send("LRANGE", key, 0, -1));
    case "set":
      return { set: texts(await redis.send("SMEMBERS", key)).sort() };
    case "zset": {
      // RESP3 has a pair for each member, RESP2 one list for all.
      const flat = texts(
        ((await redis.send("ZRANGE", key, 0, -1, "WITHSCORES")) as unknown[]).flat(),
      );
      const score = (text: string) => Number(text.replace("inf", "Infinity"));
      return {
        zset: pairs(flat)
          .map(([m, s]) => [m, score(s)] as const)
          .sort(byFirst),
      };
    }
    case "hash":
      return { hash: await askHash(redis, key) };
    case "stream":
      return askStream(redis, key);
    default:
      return type;
  }
}

async function askHash(redis: Asker, key: Buffer): Promise<unknown> {
  const flat = (await redis.send("HGETALL", key)) as Buffer[];
  const found: [string, string, number][] = [];
  for (let i = 0; i < flat.length; i += 2) {
    const expiry = await redis.reply("HPEXPIRETIME", key, "FIELDS", 1, flat[i] as Buffer);
    const at = Array.isArray(expiry) ? Math.max(0, Number(expiry[0])) : 0;
    found.push([latin1(flat[i] as Buffer), latin1(flat[i + 1] as Buffer), at]);
  }
  return found.sort(byFirst);
}

async function askStream(redis: Asker, key: Buffer): Promise<unknown> {
  const entries = ((await redis.send("XRANGE", key, "-", "+")) as [Buffer, Buffer[]][]).map(
    ([id, fields]) => [latin1(id), fields.map(latin1)],
  );
  const info = mapOf(await redis.send("XINFO", "STREAM", key));
  const groups = [];
  for (const reply of (await redis.send("XINFO", "GROUPS", key)) as Reply[]) {
    const group = mapOf(reply);
    const name = group.name as Buffer;
    const pending = (await redis.send("XPENDING", key, name, "-", "+", 10_000)) as [
      Buffer,
      Buffer,
      number,
      number,
    ][];
    const consumers = ((await redis.send("XINFO", "CONSUMERS", key, name)) as Reply[]).map(mapOf);
    groups.push({
      name: latin1(name),
      lastId: latin1(group["last-delivered-id"] as Buffer),
      pending: pending.map(([id, , , deliveries]) => [latin1(id), deliveries]),
      consumers: consumers.map((consumer) => [
        latin1(consumer.name as Buffer),
        pending
          .filter(([, owner]) => owner.equals(consumer.name as Buffer))
          .map(([id]) => latin1(id)),
      ]),
    });
  }
  const lastId = latin1(info["last-generated-id"] as Buffer);
  return { entries, info: { length: info.length, lastId }, groups };
}

function mapOf(reply: unknown): Record<string, Reply> {
  const flat = reply as Reply[];
  return Object.fromEntries(
    flat.flatMap((name, i) => (i % 2 === 0 ? [[String(name), flat[i + 1] as Reply]] : [])),
  );
}

function pairs(flat: readonly string[]): [string, string][] {
  return flat.flatMap((first, i) =>
    i % 2 === 0 ? [[first, flat[i + 1] ?? ""] as [string, string]] : [],
  );
}
