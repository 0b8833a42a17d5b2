import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError, LeaseLostError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { afterAll, describe, expect, test } from "vitest";
import { Chat, type Room } from "../src/chat/index.ts";
import {
  CorruptFileError,
  Files,
  type ReceivedFile,
  saveTo,
  TransferGoneError,
} from "../src/files/index.ts";
import { type TransferKeys, transferKeys } from "../src/files/keys.ts";
import { resolveFilesOptions } from "../src/files/options.ts";
import { FilesStore } from "../src/files/store.ts";
import { LockInspector } from "../src/lock/index.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh } = await twoConnections("crash");
const folder = await mkdtemp(join(tmpdir(), "ropeway-crash-"));
afterAll(() => rm(folder, { recursive: true, force: true }));
const CHUNK = 131_072;

/** How saveTo() names a file that is not complete. */
const partName = (name: string) => `.${name}.part`;

async function* of(content: Buffer): AsyncGenerator<Buffer> {
  yield content;
}

async function drain(file: ReceivedFile): Promise<void> {
  for await (const _ of file);
}

class Crash extends Error {}

describe("a receiver that crashes after the last chunk", () => {
  test.each([1, 2])("gets the file again, %i receivers", async (count) => {
    const channel = fresh();
    const content = randomBytes(2 * CHUNK + 100);
    const receivers = ["a", "b"].slice(0, count);
    const files = new Files(redis, channel, { chunkBytes: CHUNK });
    const publishing = files.publish(of(content), { receivers, name: "f" });
    const save = saveTo(join(folder, channel));
    const crashing = new Files(other, channel).receive("a", async (file) => {
      // All chunks were written, nothing was renamed: then the process is gone.
      const written: Buffer[] = [];
      for await (const part of file) written.push(part);
      await mkdir(join(folder, channel));
      await writeFile(join(folder, channel, partName("f")), Buffer.concat(written));
      throw new Crash();
    });
    await expect(crashing).rejects.toThrow(Crash);
    const again = new Files(other, channel).receive("a", save, { files: 1 });
    expect(await again).toEqual({ files: 1, missed: [] });
    expect((await readFile(join(folder, channel, "f"))).equals(content)).toBe(true);
    if (count === 2) {
      expect(await new Files(other, channel).receive("b", drain, { files: 1 })).toEqual({
        files: 1,
        missed: [],
      });
    }
    expect(await publishing).toMatchObject({ bytes: content.length, dropped: 0 });
    await files.end();
  });

  test("has the file if it had renamed it already", async () => {
    const channel = fresh();
    const content = randomBytes(CHUNK + 5);
    const publishing = new Files(redis, channel, { chunkBytes: CHUNK }).publish(of(content), {
      receivers: ["a"],
      name: "f",
    });
    const save = saveTo(join(folder, channel));
    const crashing = new Files(other, channel).receive("a", async (file) => {
      await save(file);
      throw new Crash();
    });
    await expect(crashing).rejects.toThrow(Crash);
    const again = new Files(other, channel).receive("a", save, { files: 1 });
    expect(await again).toEqual({ files: 1, missed: [] });
    expect(await readdir(join(folder, channel))).toEqual(["f"]);
    await publishing;
  });

  test("a handler that returns early has received the file", async () => {
    const channel = fresh();
    const files = new Files(redis, channel, { chunkBytes: CHUNK, limitBytes: CHUNK });
    const publishing = files.publish(of(randomBytes(3 * CHUNK)), { receivers: ["a"], name: "f" });
    expect(await new Files(other, channel).receive("a", () => {}, { files: 1 })).toEqual({
      files: 1,
      missed: [],
    });
    expect(await publishing).toMatchObject({ dropped: 0 });
  });
});

describe("a transfer that is gone", () => {
  test("publish() fails when its data was removed, before and after the last chunk", async () => {
    for (const chunks of [1, 40]) {
      const channel = fresh();
      const files = new Files(redis, channel, { chunkBytes: CHUNK, limitBytes: 2 * CHUNK });
      const publishing = files.publish(of(randomBytes(chunks * CHUNK)), { receivers: ["a"] });
      const failed = expect(publishing).rejects.toThrow(TransferGoneError);
      await eventually(async () =>
        expect(await server.command("EXISTS", `chat:${channel}`)).toBe(1),
      );
      await eventually(async () =>
        expect(await server.command("KEYS", `file-chunks:${channel}*`)).toHaveLength(1),
      );
      await server.command("FLUSHALL");
      await failed;
    }
  });

  test("receivers miss a file whose sender never came back, and go on", async () => {
    const channel = fresh();
    const options = { chunkBytes: CHUNK, limitBytes: 2 * CHUNK, keepMs: 1_500 };
    const first = new Files(redis, channel, options);
    let crash = () => {};
    const crashed = new Promise<never>((_, reject) => {
      crash = () => reject(new Crash());
    });
    crashed.catch(() => {});
    const endless = async function* () {
      yield randomBytes(CHUNK);
      await crashed;
    };
    const interrupted = first.publish(endless(), { receivers: ["a"], name: "half" });
    const failed = expect(interrupted).rejects.toThrow(Crash);
    let received = 0;
    const receiving = new Files(other, channel, options).receive("a", async (file) => {
      for await (const _ of file) received += 1;
    });
    await eventually(async () => expect(received).toBe(1));
    crash();
    await failed;
    await first.publish(of(Buffer.from("whole")), { receivers: ["a"], name: "whole" });
    await first.end();
    expect(await receiving).toEqual({ files: 1, missed: ["half"] });
  });
});

describe("a step of a transfer", () => {
  const chunk = { index: 0, data: Buffer.from("content"), most: 2, sentSha256: "" };

  async function begun(): Promise<{ store: FilesStore; keys: TransferKeys }> {
    const channel = fresh();
    const store = new FilesStore(redis, channel, resolveFilesOptions({ keepMs: 60_000 }));
    await store.begin("id", { name: "n", receivers: ["r"] });
    return { store, keys: transferKeys("", channel, "id") };
  }

  test("of the sender wakes the receivers that wait for a chunk, or for the end", async () => {
    const { store, keys } = await begun();
    const list = fresh();
    const steps = [
      () => store.put("id", chunk, "sender"),
      () => store.end("id", { chunks: 1, sha256: "", size: 7 }, "sender"),
    ];
    for (const [i, step] of steps.entries()) {
      await server.command("HSET", keys.waiters, "r", `${list} token${i}`);
      expect(await step()).toMatchObject({ status: "taken" });
      expect(await server.command("EXISTS", keys.waiters)).toBe(0);
      await eventually(async () => expect(await server.command("RPOP", list)).toBe(`token${i}`));
    }
  });

  test("of a receiver does not keep a file whose sender may be gone, until all of it is there", async () => {
    const { store, keys } = await begun();
    const left = async () => {
      await server.command("PEXPIRE", keys.meta, "20000");
      await store.take("id", "r", { has: 0 });
      return Number(await server.command("PTTL", keys.meta));
    };
    await store.put("id", chunk, "sender");
    expect(await left()).toBeLessThanOrEqual(20_000);
    await store.end("id", { chunks: 1, sha256: "", size: 7 }, "sender");
    expect(await left()).toBeGreaterThan(20_000);
  });
});

test("a chunk that was changed in Redis is refused before the handler has it", async () => {
  const channel = fresh();
  const stop = new AbortController();
  const how = { receivers: ["r"], id: "id", signal: stop.signal };
  const publishing = new Files(redis, channel).publish(of(Buffer.from("content")), how);
  const stopped = expect(publishing).rejects.toThrow();
  const { meta, chunks } = transferKeys("", channel, "id");
  await eventually(async () => expect(await server.command("HGET", meta, "chunks")).toBe("1"));
  await server.command("HSET", chunks, "0", "x".repeat(39));
  const got: Buffer[] = [];
  const receiving = new Files(other, channel).receive("r", async (file) => {
    for await (const part of file) got.push(part);
  });
  await expect(receiving).rejects.toThrow(CorruptFileError);
  expect(got).toEqual([]);
  stop.abort();
  await stopped;
});

describe("names", () => {
  test("a transfer whose data was lost is not noted as announced", async () => {
    const channel = fresh();
    await new FilesStore(redis, channel, resolveFilesOptions()).announced("lost");
    expect(await server.command("EXISTS", `file-meta:${channel}:lost`)).toBe(0);
  });

  test("what a sender that dies before its first chunk leaves behind expires", async () => {
    const channel = fresh();
    const store = new FilesStore(redis, channel, resolveFilesOptions());
    await store.begin("begun", { name: "f", receivers: ["r"] });
    const { meta, acks, leases } = transferKeys("", channel, "begun");
    for (const key of [meta, acks, leases])
      expect(Number(await server.command("PTTL", key))).toBeGreaterThan(0);
  });

  test("so does what a sender on the documented wire leaves behind", async () => {
    const channel = fresh();
    const files = new Files(redis, channel, { keepMs: 60_000 });
    const stop = new AbortController();
    const how = {
      receivers: ["a", "b"],
      name: "n",
      wire: "documented",
      signal: stop.signal,
    } as const;
    const publishing = files.publish(of(Buffer.from("content")), how);
    publishing.catch(() => {});
    await new Files(other, channel).receive("a", drain, { files: 1 });
    for (const key of [`${channel}n`, `${channel}n:done`, `file-named:${channel}n`]) {
      const left = Number(await server.command("PTTL", key));
      expect(left).toBeGreaterThan(0);
      expect(left).toBeLessThanOrEqual(60_000);
    }
    stop.abort();
    await expect(publishing).rejects.toThrow("sending n");
  });

  test("the documented wire refuses names that mean something else on it", async () => {
    const files = new Files(redis, fresh());
    for (const name of [":done", "a:done"]) {
      const publish = files.publish(of(Buffer.from("x")), {
        receivers: ["a"],
        name,
        wire: "documented",
      });
      await expect(publish).rejects.toThrow(InvalidArgumentError);
    }
  });

  test("a file whose name ends in .part is not overwritten by the one before it", async () => {
    const channel = fresh();
    const home = join(folder, channel);
    const files = new Files(redis, channel);
    const receiving = new Files(other, channel).receive("a", saveTo(home));
    for (const name of ["x.part", "x", "../x", "/etc/passwd", "\u001b[31mred"]) {
      await files.publish(of(Buffer.from(name)), { receivers: ["a"], name });
    }
    await files.end();
    await receiving;
    expect((await readdir(home)).sort()).toEqual(["\u001b[31mred", "passwd", "x", "x.part"]);
    expect(String(await readFile(join(home, "x.part")))).toBe("x.part");
  });
});

describe("the step that ends a receiver", () => {
  /** A channel with one receiver, and the id of a message in its room. */
  async function announced(): Promise<{ store: FilesStore; room: Room; message: number }> {
    const id = fresh();
    const store = new FilesStore(redis, id, resolveFilesOptions());
    const room = await new Chat(redis).create({
      ...{ sender: "source", recipients: ["r"], message: "", id },
    });
    return { store, room, message: await room.send("source", "n") };
  }

  test("moves its cursor as well: a crash right after it does not bring the file twice", async () => {
    const { store, room, message } = await announced();
    await store.begin("id", { name: "n", receivers: ["r"] });
    await store.finish("id", "r", message);
    expect(await room.unread("r")).toBe(0);
  });

  test("leaves the cursor where it is if the transfer was lost: the room may be a new one", async () => {
    const { store, room, message } = await announced();
    await store.finish("lost", "r", message);
    expect(await room.unread("r")).toBe(2);
  });

  test("counts it once on the documented wire, however often it is repeated", async () => {
    const { store, room, message } = await announced();
    await store.append("n", Buffer.from("content"));
    for (let i = 0; i < 3; i++) await store.done("n", "r", message);
    expect(await store.doneCount("n")).toBe(1);
    expect(await room.unread("r")).toBe(0);
  });
});

test("a receiver that was paused while another of its name went on stops, and neither gets a gap", async () => {
  const channel = fresh();
  const content = randomBytes(10 * CHUNK);
  const options = { chunkBytes: CHUNK };
  const publishing = new Files(redis, channel, options).publish(of(content), { receivers: ["r"] });
  const [paused, between] = [new AbortController(), new AbortController()];
  const ended = ({ signal }: AbortController) =>
    new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  const got: Buffer[][] = [[], []];
  const receive = (which: 0 | 1, pauseAfter: number, pause: () => Promise<void>) =>
    new Files(which ? other : redis, channel, options).receive(
      "r",
      async (file) => {
        const parts = got[which] as Buffer[];
        parts.push(content.subarray(0, file.offset));
        for await (const chunk of file) {
          parts.push(chunk);
          if (parts.length === pauseAfter + 1) await pause();
        }
      },
      { files: 1 },
    );
  const first = receive(0, 3, () => ended(paused));
  await eventually(async () => expect(got[0]).toHaveLength(4));
  const second = receive(1, 3, async () => {
    const waiting = ended(between);
    paused.abort();
    await waiting;
  });
  await expect(first).rejects.toThrow(LeaseLostError);
  between.abort();
  expect(await second).toEqual({ files: 1, missed: [] });
  expect(Buffer.concat(got[1] as Buffer[]).equals(content)).toBe(true);
  expect(await publishing).toMatchObject({ dropped: 0 });
});

test("a sender that lost its lock, as after a pause, goes on with a file, and reports it for a stream", {
  timeout: 40_000,
}, async () => {
  const [channel, name] = [fresh(), fresh()];
  const content = randomBytes(2 * CHUNK);
  await writeFile(join(folder, name), content);
  const publish = (id: string, source: string | AsyncIterable<Buffer>) =>
    new Files(redis, `${channel}${id}`, { chunkBytes: CHUNK }).publish(source, {
      ...{ receivers: ["r"], id },
    });
  const publishing = publish("file", join(folder, name));
  const streaming = publish("stream", of(content));
  const lost = expect(streaming).rejects.toThrow(LeaseLostError);
  const locks = new LockInspector(other);
  const tokens: string[] = [];
  for (const id of ["file", "stream"]) {
    const lock = `file:${channel}${id}:${id}`;
    const held = await eventually(async () => {
      const view = await locks.get(lock);
      expect(view).toBeDefined();
      return view;
    });
    tokens.push(held?.token ?? "");
    await locks.break(lock);
  }
  await lost;
  await eventually(
    async () => {
      const view = await locks.get(`file:${channel}file:file`);
      expect(view?.token).toBeDefined();
      expect(tokens).not.toContain(view?.token);
    },
    { withinMs: 30_000 },
  );
  const save = saveTo(join(folder, channel));
  const receiving = new Files(other, `${channel}file`).receive("r", save, { files: 1 });
  expect(await receiving).toMatchObject({ files: 1 });
  expect((await readFile(join(folder, channel, name))).equals(content)).toBe(true);
  expect(await publishing).toMatchObject({ bytes: content.length, dropped: 0 });
});

test("a file whose name is as long as a folder allows is saved", async () => {
  const channel = fresh();
  const home = join(folder, channel);
  const name = "文".repeat(85);
  const receiving = new Files(other, channel).receive("a", saveTo(home), { files: 1 });
  await new Files(redis, channel).publish(of(Buffer.from("x")), { receivers: ["a"], name });
  expect(await receiving).toEqual({ files: 1, missed: [] });
  expect(await readdir(home)).toEqual([name]);
});
