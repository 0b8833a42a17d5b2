/** Redis forgets what it has confirmed: a restart without persistence, or a failover before replication. */
import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeEach, describe, expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { roomKeys, seenKey } from "../src/chat/keys.ts";
import { Files, saveTo, TransferGoneError } from "../src/files/index.ts";
import { transferKeys } from "../src/files/keys.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh } = await twoConnections("loss");
const folder = await mkdtemp(join(tmpdir(), "ropeway-loss-"));
afterAll(() => rm(folder, { recursive: true, force: true }));
beforeEach(() => server.command("FLUSHALL"));

describe("a live feed", () => {
  /** Reads for `user`, and acknowledges if told to. */
  function follow(user: string, acknowledges: boolean) {
    const controller = new AbortController();
    const chat = new Chat<string>(other);
    const seen: string[] = [];
    const feed = (async () => {
      for await (const event of chat.feed(user, { signal: controller.signal })) {
        if (event.type !== "message") continue;
        seen.push(event.message);
        if (acknowledges) await chat.room(event.room).acknowledge(user, event.id);
      }
    })();
    const end = async () => {
      controller.abort();
      await feed;
    };
    return { seen, end };
  }

  test.each([false, true])(
    "reads a room that was made again, with as many messages, from its first one (acknowledges: %s)",
    async (acknowledges) => {
      const chat = new Chat<string>(redis);
      const make = async (age: string) => {
        const room = await chat.create({ sender: "a", recipients: ["b"], message: age, id: "r" });
        for (let i = 0; i < 4; i++) await room.send("a", `${age} ${i}`);
      };
      const { seen, end } = follow("b", acknowledges);
      await make("old");
      await eventually(() => expect(seen).toHaveLength(5));
      if (acknowledges) {
        await eventually(async () =>
          expect(await server.command("ZSCORE", "seen:b", "r")).toBe("5"),
        );
      }
      await server.command("FLUSHALL");
      await make("new");
      const news = ["new", "new 0", "new 1", "new 2", "new 3"];
      await eventually(() => expect(seen.slice(5)).toEqual(news));
      await end();
    },
  );

  test.each([false, true])(
    "reads such a room from its first message also if it has read none before (acknowledges: %s)",
    async (acknowledges) => {
      const chat = new Chat<string>(redis);
      const make = async () => {
        const room = await chat.create({ sender: "a", recipients: ["b"], message: "0", id: "r" });
        for (let i = 1; i <= 3; i++) await room.send("a", String(i));
        return room;
      };
      const room = await make();
      await room.acknowledge("b", 3);
      const { seen, end } = follow("b", false);
      await eventually(() => expect(seen).toEqual(["3"]));
      await room.acknowledge("b", 4);
      await end();
      const second = follow("b", acknowledges);
      await eventually(async () => expect((await server.clients()).length).toBeGreaterThan(2));
      await server.command("FLUSHALL");
      await make();
      await room.send("a", "4");
      await eventually(() => expect(second.seen).toEqual(["0", "1", "2", "3", "4"]));
      await second.end();
    },
  );

  test("goes back with its user's cursor if messages that it has not read were replaced", async () => {
    const chat = new Chat<string>(redis);
    const room = await chat.create({ sender: "a", recipients: ["b"], message: "first" });
    await room.acknowledge("b", await room.send("a", "lost"));
    await chat.create({ sender: "a", recipients: ["b"], message: "following" });
    const { seen, end } = follow("b", false);
    await eventually(() => expect(seen).toEqual(["following"]));
    const { msgs, members } = roomKeys("", room.id);
    const instead = JSON.stringify({ id: 2, ts: 1.5, sender: "a", message: "instead" });
    const atOnce = `
      redis.call('ZREMRANGEBYSCORE', KEYS[1], 2, 2)
      redis.call('ZADD', KEYS[1], 2, ARGV[1])
      redis.call('ZADD', KEYS[2], 1, 'b')
      redis.call('ZADD', KEYS[3], 1, ARGV[2])`;
    const keys = [msgs, members, seenKey("", "b")];
    await server.command("EVAL", atOnce, "3", ...keys, instead, room.id);
    await eventually(() => expect(seen).toEqual(["following", "instead"]));
    await end();
  });

  test("reads a message that got the id of a lost one", async () => {
    const chat = new Chat<string>(redis);
    const room = await chat.create({ sender: "a", recipients: ["b"], message: "first" });
    const { seen, end } = follow("b", false);
    await room.send("a", "lost");
    await eventually(() => expect(seen).toEqual(["first", "lost"]));
    await server.command("ZREMRANGEBYSCORE", `msgs:${room.id}`, "2", "2");
    await server.command("DECR", `ids:${room.id}`);
    expect(await room.send("a", "instead")).toBe(2);
    await eventually(() => expect(seen).toContain("instead"));
    await end();
  });
});

describe("files", () => {
  const CHUNK = 131_072;
  const options = { chunkBytes: CHUNK };

  /** Forgets the last chunks of a transfer, as a replica that did not get them. */
  async function forget(channel: string, next: number, ...chunks: number[]): Promise<void> {
    const keys = transferKeys("", channel, "t");
    await server.command("HDEL", keys.chunks, ...chunks.map(String));
    await server.command("HSET", keys.meta, "next", String(next));
    await server.command("HDEL", keys.meta, "chunks", "sha256", "size", "sent");
  }

  test.each([
    ["while chunks are sent", 3],
    ["after the last one was", 20],
  ])("a file is complete although Redis lost chunks of it %s", async (_when, most) => {
    const channel = fresh();
    const content = randomBytes(6 * CHUNK + 7);
    await writeFile(join(folder, channel), content);
    const publishing = new Files(redis, channel, { ...options, limitBytes: most * CHUNK }).publish(
      join(folder, channel),
      { receivers: ["r"], id: "t", name: `${channel}-received` },
    );
    const sent = Math.min(most, 7);
    const { meta } = transferKeys("", channel, "t");
    await eventually(async () =>
      expect(await server.command("HGET", meta, most > 7 ? "chunks" : "next")).toBe(String(sent)),
    );
    await forget(channel, sent - 2, sent - 2, sent - 1);
    const receiving = new Files(other, channel, options).receive("r", saveTo(folder), { files: 1 });
    expect(await receiving).toEqual({ files: 1, missed: [] });
    expect(await publishing).toMatchObject({ bytes: content.length, dropped: 0 });
    expect((await readFile(join(folder, `${channel}-received`))).equals(content)).toBe(true);
  });

  test("a stream whose chunks Redis lost fails, and goes on under the same id", async () => {
    const channel = fresh();
    const content = randomBytes(5 * CHUNK);
    async function* all() {
      yield content;
    }
    const files = new Files(redis, channel, { ...options, limitBytes: 2 * CHUNK });
    const how = { receivers: ["r"], id: "t", name: "n" };
    const failed = expect(files.publish(all(), how)).rejects.toThrow(TransferGoneError);
    const { meta } = transferKeys("", channel, "t");
    await eventually(async () => expect(await server.command("HGET", meta, "next")).toBe("2"));
    await forget(channel, 1, 1);
    const got: Buffer[] = [];
    const receiving = new Files(other, channel, options).receive(
      "r",
      async (file) => {
        for await (const part of file) got.push(part);
      },
      { files: 1 },
    );
    await failed;
    expect(await files.publish(all(), how)).toMatchObject({ dropped: 0 });
    await receiving;
    expect(Buffer.concat(got).equals(content)).toBe(true);
  });

  test("a receiver that was busy when all data was lost gets the files that come later", async () => {
    const channel = fresh();
    const files = new Files(redis, channel, options);
    const controller = new AbortController();
    const { signal } = controller;
    const names: string[] = [];
    let busy = () => {};
    const free = new Promise<void>((resolve) => {
      busy = resolve;
    });
    const receiving = new Files(other, channel, options).receive(
      "r",
      async (file) => {
        names.push(file.name);
        if (file.name === "lost") await free;
        for await (const _ of file);
      },
      { signal },
    );
    async function* content() {
      yield Buffer.from("content");
    }
    const lost = files.publish(content(), { receivers: ["r"], name: "lost" });
    const failed = expect(lost).rejects.toThrow();
    await eventually(() => expect(names).toEqual(["lost"]));
    await server.command("FLUSHALL");
    await failed;
    const later = files.publish(content(), { receivers: ["r"], name: "later" });
    // The announcement has the id of the one that was lost. Only now the receiver is done with that one.
    await eventually(async () => expect(await server.command("GET", `ids:${channel}`)).toBe("2"));
    busy();
    expect(await later).toMatchObject({ dropped: 0 });
    expect(names).toEqual(["lost", "later"]);
    controller.abort();
    expect(await receiving).toMatchObject({ files: 1 });
  });
});
