import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { liveReaderOf } from "../src/chat/live-reader.ts";
import { resolveChatOptions } from "../src/chat/options.ts";
import { ChatStore } from "../src/chat/store.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis } = await twoConnections("live");

test("a message without an entry in the stream is noticed as well, and looked for once more", async () => {
  const room = await new Chat(redis).create({ sender: "a", recipients: [], message: "first" });
  let events = 0;
  const unwatch = liveReaderOf(new ChatStore(redis, resolveChatOptions())).watch(room.id, () => {
    events += 1;
  });
  // Each change is told twice, because a documented program counts first and adds later.
  await eventually(() => expect(events).toBe(2));
  await server.command("INCR", `ids:${room.id}`);
  await eventually(() => expect(events).toBe(4));
  unwatch();
});
