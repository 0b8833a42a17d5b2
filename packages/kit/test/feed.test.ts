import { expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, fresh } = await twoConnections("feed");

const chat = new Chat<string>(redis);

test("a member that left and joined again gets nothing that was sent meanwhile", async () => {
  const [a, b] = [fresh(), fresh()];
  const room = await chat.create({ sender: a, recipients: [b], message: "first" });
  const controller = new AbortController();
  const seen: string[] = [];
  const feed = chat.feed(b, { signal: controller.signal });
  const next = async () => {
    const { value } = await feed.next();
    if (value?.type === "message") seen.push(value.message);
  };
  await next();
  // The feed reads only when it is asked, so it sees nothing of this before it is over.
  for (const n of ["1", "2"]) {
    await room.leave(b);
    await room.send(a, `not for b ${n}`);
    await room.join(b);
    await room.send(a, `back ${n}`);
  }
  expect(await server.command("ZCARD", `chat-joined:${room.id}`)).toBe(1);
  await next();
  await room.leave(b);
  expect(await server.command("ZSCORE", `chat-joined:${room.id}`, b)).toBeNull();
  await room.send(a, "history");
  await room.join(b, { history: true });
  while (!seen.includes("history")) await next();
  expect(seen.slice(0, 2)).toEqual(["first", "back 2"]);
  for (const user of [a, b]) await room.leave(user);
  expect(await server.command("EXISTS", `chat-joined:${room.id}`)).toBe(0);
  controller.abort();
  await feed.return();
});
