/** Three candidates, one leader; what an old leader writes late is refused by its fence. */
import { connect } from "@ropeway/core";
import { type HeldLock, Lock } from "@ropeway/kit/lock";

const redis = await connect(process.env.REDIS_URL);

/** A resource that remembers the highest fence it has seen, as a database column would. */
class Ledger {
  #fence = 0;

  write(fence: number, text: string): boolean {
    if (fence < this.#fence) return false;
    this.#fence = fence;
    console.log(text);
    return true;
  }
}

const ledger = new Ledger();
const terms: HeldLock[] = [];

async function stand(name: string): Promise<void> {
  const lock = new Lock(redis, "leader", { owner: name, waitMs: null });
  await lock.run((held) => {
    terms.push(held);
    ledger.write(held.fence, `${name} leads`);
  });
}

await Promise.all(["ann", "ben", "cem"].map(stand));
const [first] = terms;
const written = ledger.write(first?.fence ?? 0, "ann writes late");
console.log(written ? "a late write was accepted" : "a late write was refused");
await redis.close();
