/** Files that a receiver, or a second sender, comes too late for. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { afterAll, describe, expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { Files, type ReceivedFile, SourceChangedError, saveTo } from "../src/files/index.ts";
import { Lock, LockInspector } from "../src/lock/index.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh: name } = await twoConnections("late");
const folder = await mkdtemp(join(tmpdir(), "ropeway-late-"));
afterAll(() => rm(folder, { recursive: true, force: true }));

const fresh = () => `${name()}:`;
/** In no other room: a feed looks for new rooms more often while it has none. */
const somebody = () => `r-${name()}`;

async function* of(text: string): AsyncGenerator<Buffer, void> {
  yield Buffer.from(text);
}

describe("an id that was used", () => {
  const ended = async () => {
    const [channel, r] = [fresh(), somebody()];
    const files = new Files(redis, channel);
    const receiving = new Files(other, channel).receive(r, saveTo(folder), { files: 1 });
    const first = await files.publish(of("monday"), { receivers: [r], id: "daily", name: "m" });
    expect(await receiving).toEqual({ files: 1, missed: [] });
    return { files, first, r };
  };

  test("refuses another file as long as Redis knows it, instead of saying that it was sent", async () => {
    const { files, first, r } = await ended();
    const again = { receivers: [r], id: "daily" };
    await expect(files.publish(of("tuesday"), again)).rejects.toThrow(SourceChangedError);
    expect((await files.publish(of("monday"), again)).sha256).toBe(first.sha256);
  });

  test("refuses another file while its receivers have not finished", async () => {
    const [channel, r] = [fresh(), somebody()];
    const files = new Files(redis, channel);
    const stop = new AbortController();
    const options = { receivers: [r], id: "x", name: "x" };
    const first = files.publish(of("one"), { ...options, signal: stop.signal });
    first.catch(() => {});
    const meta = `file-meta:${channel}:x`;
    await eventually(async () => expect(await server.command("HGET", meta, "chunks")).toBe("1"));
    stop.abort();
    await expect(first).rejects.toThrow();
    await expect(files.publish(of("two"), options)).rejects.toThrow(SourceChangedError);
    const received = new Files(other, channel).receive(r, saveTo(folder), { files: 1 });
    await files.publish(of("one"), options);
    expect(await received).toEqual({ files: 1, missed: [] });
    expect(await readFile(join(folder, "x"), "utf8")).toBe("one");
  });

  test("refuses other receivers, who would not get it, and takes the same in another order", async () => {
    const { files, r: mine } = await ended();
    const publishing = files.publish(of("monday"), { receivers: [mine, "s"], id: "daily" });
    await expect(publishing).rejects.toThrow(InvalidArgumentError);

    const channel = fresh();
    const both = new Files(redis, channel);
    const [r, s] = [somebody(), somebody()];
    const receiving = [r, s].map((receiver) =>
      new Files(other, channel).receive(receiver, () => {}, { files: 1 }),
    );
    await both.publish(of("a"), { receivers: [r, s], id: "i" });
    expect((await Promise.all(receiving)).map(({ files: got }) => got)).toEqual([1, 1]);
    await both.publish(of("a"), { receivers: [s, r], id: "i" });
  });
});

test("the name of the sender is no name of a receiver: it would never be told of a file", async () => {
  const publishing = new Files(redis, fresh()).publish(of("a"), { receivers: ["r", "source"] });
  await expect(publishing).rejects.toThrow(InvalidOptionError);
});

test("an announcement with an impossible chunk size is none", async () => {
  for (const chunkBytes of [-5, 0, 1, 1e15]) {
    const [channel, r] = [fresh(), somebody()];
    const room = await new Chat(redis).create({
      ...{ sender: "source", recipients: [r], message: "", id: channel },
    });
    await server.command("HSET", `file-meta:${channel}:t`, "next", "3", "low", "0");
    await server.command("ZADD", `file-acks:${channel}:t`, "2", r);
    await room.send("source", { file: "t", name: "f", chunkBytes });
    await new Files(redis, channel).end();
    const offsets: number[] = [];
    const receiving = new Files(other, channel).receive(r, (file) => offsets.push(file.offset));
    expect(await receiving).toEqual({ files: 0, missed: [] });
    expect(offsets).toEqual([]);
  }
});

test("a receiver that was away when its channel ended gets the files of the channel that was begun again", async () => {
  const [channel, r] = [fresh(), somebody()];
  const short = new Files(redis, channel, { leaseMs: 50 });
  expect(await short.publish(of("monday"), { receivers: [r], name: "m" })).toMatchObject({
    dropped: 1,
  });
  await short.end();
  const files = new Files(redis, channel);
  const publishing = files.publish(of("tuesday"), { receivers: [r], name: "t" });
  await eventually(async () =>
    expect((await Files.transfers(redis)).items).toMatchObject([{ name: "t" }]),
  );
  const got: string[] = [];
  const receiving = new Files(other, channel).receive(r, async (file) => {
    for await (const chunk of file) got.push(String(chunk));
  });
  expect(await publishing).toMatchObject({ dropped: 0 });
  await files.end();
  expect(await receiving).toEqual({ files: 1, missed: ["m"] });
  expect(got).toEqual(["tuesday"]);
});

test("a receiver that is busy with one file for longer than its lease gets those behind it", async () => {
  const [channel, r] = [fresh(), somebody()];
  const options = { leaseMs: 300 };
  const files = new Files(redis, channel, options);
  const got: string[] = [];
  const handler = async (file: ReceivedFile) => {
    for await (const chunk of file) got.push(String(chunk));
    const leases = `file-leases:${channel}:third`;
    if (got.length > 1) return;
    await eventually(async () => expect(await server.command("EXISTS", leases)).toBe(1));
    await new Promise((resolve) => setTimeout(resolve, 3 * options.leaseMs)); // the lease ends meanwhile
  };
  const receiving = new Files(other, channel, options).receive(r, handler);
  const sent = ["first", "second", "third"].map(async (text) => {
    const { dropped } = await files.publish(of(text), { receivers: [r], name: text, id: text });
    return dropped;
  });
  expect(await Promise.all(sent)).toEqual([0, 0, 0]);
  await files.end();
  expect(await receiving).toEqual({ files: 3, missed: [] });
  expect(got.sort()).toEqual(["first", "second", "third"]);
});

test("a busy receiver renews its lease also for a file behind a hundred other messages", async () => {
  const [channel, r] = [fresh(), somebody()];
  const options = { leaseMs: 3_000 };
  const files = new Files(redis, channel, options);
  const leaseEnd = async () =>
    Number(await server.command("ZSCORE", `file-leases:${channel}:last`, r));
  let begin = () => {};
  const busy = new Promise<void>((resolve) => {
    begin = resolve;
  });
  const receiving = new Files(other, channel, options).receive(r, async (file) => {
    for await (const _ of file);
    if (file.name === "last") return;
    begin();
    await eventually(async () => expect(await leaseEnd()).toBeGreaterThan(0));
    const first = await leaseEnd();
    await eventually(async () => expect(await leaseEnd()).toBeGreaterThan(first));
  });
  const first = files.publish(of("first"), { receivers: [r], name: "first" });
  await busy;
  const room = new Chat<object>(redis).room(channel);
  await Promise.all(Array.from({ length: 100 }, () => room.send("source", {})));
  const last = files.publish(of("last"), { receivers: [r], name: "last", id: "last" });
  expect(await Promise.all([first, last])).toMatchObject([{ dropped: 0 }, { dropped: 0 }]);
  await files.end();
  expect(await receiving).toEqual({ files: 2, missed: [] });
});

test.each([
  ["a string that names a key of another type", "errors", "errors"],
  ["a transfer whose keys are of another type", { file: "t", name: "f", chunkBytes: 262_144 }, "f"],
])("a message does not stop a receiver for good: %s", async (_what, message, missed) => {
  const [channel, r] = [fresh(), somebody()];
  const room = await new Chat<unknown>(redis).create({
    ...{ sender: "source", recipients: [r], message: "", id: channel },
  });
  await server.command("RPUSH", `${channel}errors`, "x");
  await server.command("RPUSH", `file-meta:${channel}:t`, "x");
  await room.send("source", message);
  const receiving = new Files(other, channel).receive(r, saveTo(folder));
  const files = new Files(redis, channel);
  expect(await files.publish(of("next"), { receivers: [r], name: "n" })).toMatchObject({
    dropped: 0,
  });
  await files.end();
  expect(await receiving).toEqual({ files: 1, missed: [missed] });
});

test.each(["..", "a\0b", ".x.part", "x".repeat(256)])(
  "a file that cannot be saved is missed, and does not stop its receiver: %j",
  async (unusable) => {
    const [channel, r] = [fresh(), somebody()];
    const files = new Files(redis, channel, { leaseMs: 2_000 });
    const receiving = new Files(other, channel, { leaseMs: 2_000 }).receive(r, saveTo(folder));
    for (const wire of ["chunks", "documented"] as const) {
      const sent = await files.publish(of("x"), { receivers: [r], name: unusable, wire });
      expect(sent.dropped).toBe(1);
    }
    await files.publish(of("good"), { receivers: [r], name: "good" });
    await files.end();
    expect(await receiving).toEqual({ files: 1, missed: [unusable, unusable] });
  },
);

describe("a transfer that its sender cannot finish", () => {
  async function* broken(): AsyncGenerator<Buffer, void> {
    yield Buffer.alloc(300_000);
    throw new Error("the disk failed");
  }

  test("holds up no receiver if it has no id to resume it by", async () => {
    const [channel, r] = [fresh(), somebody()];
    const files = new Files(redis, channel);
    const receiving = new Files(other, channel).receive(r, saveTo(folder));
    const publishing = files.publish(broken(), { receivers: [r], name: "broken" });
    await expect(publishing).rejects.toThrow("the disk failed");
    await files.publish(of("good"), { receivers: [r], name: "good" });
    await files.end();
    expect(await receiving).toEqual({ files: 1, missed: ["broken"] });
    expect(await server.command("KEYS", `file-*${channel}:*`)).toEqual([
      expect.stringContaining("file-meta:"), // of the good one, for its sender
    ]);
  });

  test("waits for its sender if the caller has given it an id", async () => {
    const [channel, r] = [fresh(), somebody()];
    const files = new Files(redis, channel);
    const how = { receivers: [r], name: "twice", id: "mine" };
    await expect(files.publish(broken(), how)).rejects.toThrow("the disk failed");
    const receiving = new Files(other, channel).receive(r, saveTo(folder), { files: 1 });
    const whole = async function* () {
      yield Buffer.alloc(300_000);
      yield Buffer.from("end");
    };
    await files.publish(whole(), how);
    expect(await receiving).toEqual({ files: 1, missed: [] });
  });

  test("is left to its receivers if all of it was sent", async () => {
    const [channel, r] = [fresh(), somebody()];
    const files = new Files(redis, channel);
    const stop = new AbortController();
    const how = { receivers: [r], name: "sent", signal: stop.signal };
    const publishing = files.publish(of("all of it"), how);
    publishing.catch(() => {});
    const [meta = ""] = await eventually(async () => {
      const keys = (await server.command("KEYS", `file-meta:${channel}:*`)) as string[];
      expect(await server.command("HGET", keys[0] ?? "", "chunks")).toBe("1");
      return keys;
    });
    stop.abort();
    await expect(publishing).rejects.toThrow();
    await redis.send(["PING"]); // behind what publish() has sent last
    expect(await server.command("EXISTS", meta)).toBe(1);
    const received = new Files(other, channel).receive(r, saveTo(folder), { files: 1 });
    expect(await received).toEqual({ files: 1, missed: [] });
  });

  test("is refused to another file that begins in another way", async () => {
    const [channel, r] = [fresh(), somebody()];
    const files = new Files(redis, channel);
    const how = { receivers: [r], name: "resumed", id: "mine" };
    await expect(files.publish(broken(), how)).rejects.toThrow("the disk failed");
    const another = async function* (of: number) {
      yield Buffer.alloc(400_000, of);
    };
    await expect(files.publish(another(1), how)).rejects.toThrow(SourceChangedError);
    const receiving = new Files(other, channel).receive(r, saveTo(folder), { files: 1 });
    await files.publish(another(0), how);
    expect(await receiving).toEqual({ files: 1, missed: [] });
    expect(await readFile(join(folder, "resumed"))).toEqual(Buffer.alloc(400_000));
  });

  test.each(["", "none"])(
    "is not begun if the path is that of a folder, or of nothing: %j",
    async (name) => {
      const channel = fresh();
      const path = join(folder, name);
      const publishing = new Files(redis, channel).publish(path, { receivers: [somebody()] });
      await expect(publishing).rejects.toThrow(InvalidArgumentError);
      expect(await server.command("KEYS", `*${channel}*`)).toEqual([]);
    },
  );
});

test("a file that is announced after another sender has ended the channel is sent", async () => {
  const [channel, r] = [fresh(), somebody()];
  const files = new Files(redis, channel);
  const held = await new Lock(other, `file:${channel}:x`).acquire(); // publish() waits here, before it announces
  const sending = files.publish(of("late"), { receivers: [r], id: "x", name: "x" });
  const waiting = () => new LockInspector(other).get(`file:${channel}:x`);
  await eventually(async () => expect((await waiting())?.waiting).toBe(1));
  expect(await new Files(other, channel).end()).toBe(true);
  await held.release();
  const received = await new Files(other, channel).receive(r, saveTo(folder), { files: 1 });
  expect(received).toEqual({ files: 1, missed: [] });
  expect(await sending).toMatchObject({ dropped: 0 });
});
