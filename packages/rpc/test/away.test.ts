import { spawnScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

const FIXTURE = new URL("./away.fixture.ts", import.meta.url);
const seconds = (count: number) => new Promise((resolve) => setTimeout(resolve, count * 1_000));

test("a process whose Redis is away uses hardly any CPU", async () => {
  await using server = await startRedis();
  await using away = await spawnScript(FIXTURE, { args: [server.url] });
  await away.waitForLine(/^ready/, { withinMs: 60_000 });
  await server.kill9();
  await seconds(1); // noticed, and what was under way has failed
  away.send("begin");
  await away.waitForLine(/^share/);
  await seconds(4);
  away.send("end");
  const [, share] = await away.waitForLine(/^share (\S+)$/);
  // It was 0.06 when the loops of the process tried again at once. It is about 0.005.
  expect(Number(share)).toBeLessThan(0.03);
}, 90_000);
