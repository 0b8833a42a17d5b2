import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("everybody reads everything, in order, and the room is removed", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const printed = await runScript(main, { env: { REDIS_URL: server.url } });
  expect(printed).toEqual([
    "1 joe: hello",
    "2 jenny: hi",
    "3 joe: how are you?",
    "jenny has 3 unread messages",
    "jenny has 0 unread messages",
  ]);
  expect(await server.command("KEYS", "example:*")).toEqual(["example:ids:chat:"]);
}, 60_000);
