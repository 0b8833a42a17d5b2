import { describe, expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { roomKeys } from "../src/chat/keys.ts";
import { Lock } from "../src/lock/index.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { mailboxKeys } from "../src/mailbox/keys.ts";
import { Semaphore } from "../src/semaphore/index.ts";
import { semaphoreKeys } from "../src/semaphore/keys.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh } = await twoConnections("w");

/** Everything in Redis as it is stored, but wake lists. */
async function contents(): Promise<Record<string, unknown>> {
  const keys = ((await server.command("KEYS", "*")) as string[]).filter(
    (key) => !key.startsWith("kit-wake"),
  );
  const dumps = keys.sort().map(async (key) => [key, await server.command("DUMP", key)] as const);
  return Object.fromEntries(await Promise.all(dumps));
}

describe("a key of another type is an error that changes nothing", () => {
  test.each(["lock", "fence", "queue", "waiters", "readers", "entries"] as const)(
    "%s of a lock",
    async (part) => {
      const name = fresh();
      const keys = lockKeys("", name);
      if (part === "waiters") await new Lock(other, name).acquire({ ttlMs: null });
      const wrong = part === "entries" ? ["LPUSH", keys[part], "x"] : ["SADD", keys[part], "x"];
      await server.command(...(wrong as [string, ...string[]]));
      const before = await contents();
      await expect(new Lock(redis, name).acquire({ waitMs: 50 })).rejects.toMatchObject({
        code: "WRONG_KEY_TYPE",
      });
      expect(await contents()).toEqual(before);
      await server.command("FLUSHALL");
    },
  );

  test.each(["times", "owner", "leases", "queue", "waiters"] as const)(
    "%s of a semaphore",
    async (part) => {
      const name = fresh();
      const keys = semaphoreKeys("", name);
      if (part === "waiters") await new Semaphore(other, name).acquire();
      await server.command("SADD", keys[part], "x");
      const before = await contents();
      await expect(new Semaphore(redis, name).acquire({ waitMs: 50 })).rejects.toMatchObject({
        code: "WRONG_KEY_TYPE",
      });
      expect(await contents()).toEqual(before);
      await server.command("FLUSHALL");
    },
  );

  test.each(["many", "nan", "inf", "-5", "0", "0x10", "1e400"])(
    "a limit of %s leaves the limit to the processes",
    async (limit) => {
      const name = fresh();
      await server.command("SET", semaphoreKeys("", name).limit, limit);
      const semaphore = new Semaphore(redis, name, { limit: 1 });
      const permit = await semaphore.acquire();
      expect(await semaphore.tryAcquire()).toBeUndefined();
      expect(await semaphore.inspect()).toMatchObject({ limit: 1, held: 1 });
      await permit.release();
      await server.command("FLUSHALL");
    },
  );

  test.each(["x", "nan", "inf", "-1", "9e18", "9007199254740993"])(
    "a fence of %s is none: fences rise",
    async (fence) => {
      const lock = new Lock(redis, fresh());
      await server.command("SET", lockKeys("", lock.name).fence, fence);
      const first = await lock.acquire();
      await first.release();
      const second = await lock.acquire();
      await second.release();
      expect(second.fence).toBeGreaterThan(first.fence);
      await server.command("FLUSHALL");
    },
  );

  test.each(["box", "leases", "taken", "tries", "dead", "waiters"] as const)(
    "%s of a mailbox",
    async (part) => {
      const name = fresh();
      const box = new Mailbox<number>(redis, name);
      await box.send(1);
      const keys = mailboxKeys("", name);
      await server.command("DEL", keys[part]);
      await server.command("SADD", keys[part], "x");
      const before = await contents();
      await expect(box.receive()).rejects.toMatchObject({ code: "WRONG_KEY_TYPE" });
      expect(await contents()).toEqual(before);
      await server.command("FLUSHALL");
    },
  );

  test.each(["members", "msgs", "live", "typing", "present"] as const)(
    "%s of a room",
    async (part) => {
      const chat = new Chat<string>(redis);
      const room = await chat.create({ sender: "a", recipients: ["b"], message: "m" });
      const key = roomKeys("", room.id)[part];
      await server.command("DEL", key);
      await server.command("SET", key, "x");
      const before = await contents();
      const wrong = { code: "WRONG_KEY_TYPE" };
      if (part === "members" || part === "msgs" || part === "live") {
        await expect(room.send("a", "x")).rejects.toMatchObject(wrong);
      } else {
        const set = part === "typing" ? room.setTyping("a") : room.setPresent("a");
        await expect(set).rejects.toMatchObject(wrong);
      }
      if (part !== "live") await expect(room.leave("b")).rejects.toMatchObject(wrong);
      expect(await contents()).toEqual(before);
      await server.command("FLUSHALL");
    },
  );
});
