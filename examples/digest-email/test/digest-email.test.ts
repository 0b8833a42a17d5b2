import { spawnScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("each recipient gets one e-mail with all comments in order", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  await using script = await spawnScript(main, { env: { REDIS_URL: server.url } });
  expect(await script.exited).toEqual({ code: 0, signal: null });
  const printed: string[] = [];
  for await (const line of script.lines) printed.push(line);
  const mails = printed
    .join("\n")
    .split(/^(?=e-mail)/m)
    .map((mail) => mail.trim());
  expect(mails.sort()).toEqual([
    "e-mail to ana: 3 new comment(s) on picnic\n  ben: I bring salad\n  cem: Rain, they say\n  ben: Then the barn!",
    "e-mail to dot: 1 new comment(s) on picnic\n  ben: I bring salad",
  ]);
}, 60_000);
