/** One item, a hundred buyers: the purchase of the documented market, correct under contention. */
import { connect, type Redis } from "@ropeway/core";
import { Lock } from "@ropeway/kit/lock";

const redis = await connect(process.env.REDIS_URL);

/** Buys the item for its price if it is still there and the buyer can pay. */
async function purchase(store: Redis, buyer: string): Promise<boolean> {
  return new Lock(store, "market:", { waitMs: 60_000 }).run(async () => {
    const price = Number(await store.send(["ZSCORE", "market:", "sword.ann"]));
    const funds = Number(await store.send(["HGET", `users:${buyer}`, "funds"]));
    if (!price || price > funds) return false;
    await store.send(["HINCRBY", "users:ann", "funds", String(price)]);
    await store.send(["HINCRBY", `users:${buyer}`, "funds", String(-price)]);
    await store.send(["SADD", `inventory:${buyer}`, "sword"]);
    await store.send(["ZREM", "market:", "sword.ann"]);
    return true;
  });
}

const buyers = Array.from({ length: 100 }, (_, i) => `buyer${i}`);
await redis.send(["ZADD", "market:", "97", "sword.ann"]);
await redis.send(["HSET", "users:ann", "funds", "0"]);
for (const buyer of buyers) await redis.send(["HSET", `users:${buyer}`, "funds", "100"]);

const bought = await Promise.all(buyers.map((buyer) => purchase(redis, buyer)));
const winners = buyers.filter((_, i) => bought[i]);
const seller = await redis.send(["HGET", "users:ann", "funds"]);
const left = await redis.send(["HGET", `users:${winners[0]}`, "funds"]);
console.log(
  `${winners.length} of ${buyers.length} bought it; ann has ${seller}, the buyer ${left}`,
);
await redis.close();
