import { runScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("each recipient gets one e-mail with all comments in order", async () => {
  await using server = await startRedis();
  const main = new URL("../src/main.ts", import.meta.url);
  const printed = await runScript(main, { env: { REDIS_URL: server.url } });
  const mails = printed
    .join("\n")
    .split(/^(?=e-mail)/m)
    .map((mail) => mail.trim());
  expect(mails.sort()).toEqual([
    "e-mail to ana: 3 new comment(s) on picnic\n  ben: I bring salad\n  cem: Rain, they say\n  ben: Then the barn!",
    "e-mail to dot: 1 new comment(s) on picnic\n  ben: I bring salad",
  ]);
}, 60_000);
