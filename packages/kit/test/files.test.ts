import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { afterAll, describe, expect, test } from "vitest";
import {
  Files,
  gunzip,
  lines,
  type Progress,
  type ReceivedFile,
  saveTo,
} from "../src/files/index.ts";
import { seed } from "./seed.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh: name } = await twoConnections("ch");
const folder = await mkdtemp(join(tmpdir(), "ropeway-files-"));
afterAll(() => rm(folder, { recursive: true, force: true }));

const fresh = () => `${name()}:`;
const KIB = 1_024;

async function file(name: string, bytes: number): Promise<{ path: string; content: Buffer }> {
  const path = join(folder, name);
  const content = randomBytes(bytes);
  await writeFile(path, content);
  return { path, content };
}

async function collect(source: AsyncIterable<Buffer>): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of source) parts.push(part);
  return Buffer.concat(parts);
}

/** Nothing of the kit's is left but results that expire, wake lists and fences. */
async function expectNothingLeft(): Promise<void> {
  await eventually(
    async () => {
      const keys = (await server.command("KEYS", "*")) as string[];
      const left = keys.filter((key) => !/^(kit-wake|lock-fence|file-meta|ids:chat:)/.test(key));
      expect(left).toEqual([]);
    },
    { withinMs: 8_000 },
  );
}

describe("chunks", () => {
  test("every receiver gets the file, whole and with its digest, and nothing is left", async () => {
    const channel = fresh();
    const { path, content } = await file("one.bin", 900 * KIB + 17);
    const files = new Files(redis, channel, { chunkBytes: 128 * KIB, limitBytes: 256 * KIB });
    const receivers = ["0", "1", "2"];
    const got: ReceivedFile[] = [];
    const progress: Progress[] = [];
    const receiving = receivers.map((receiver, i) =>
      new Files(i % 2 ? redis : other, channel).receive(receiver, async (incoming) => {
        expect((await collect(incoming)).equals(content)).toBe(true);
        got.push(incoming);
      }),
    );
    const published = await files.publish(path, {
      receivers,
      onProgress: (now) => progress.push(now),
    });
    expect(await files.end()).toBe(true);
    expect(await Promise.all(receiving)).toEqual([
      { files: 1, missed: [] },
      { files: 1, missed: [] },
      { files: 1, missed: [] },
    ]);
    const sha256 = createHash("sha256").update(content).digest("hex");
    expect(published).toMatchObject({ name: "one.bin", bytes: content.length, sha256, dropped: 0 });
    expect(got.map((incoming) => incoming.sha256)).toEqual([sha256, sha256, sha256]);
    expect(await files.end()).toBe(false);
    expect(progress.at(-1)).toEqual({
      name: "one.bin",
      bytes: content.length,
      total: content.length,
    });
    await expectNothingLeft();
  });

  test("never more than the limit is in Redis, and a receiver that never comes is dropped", async () => {
    const channel = fresh();
    const { path, content } = await file("two.bin", 3_000 * KIB);
    const options = { chunkBytes: 128 * KIB, limitBytes: 512 * KIB, leaseMs: 4_000 };
    const files = new Files(redis, channel, options);
    let highest = 0;
    const publishing = files.publish(path, { receivers: ["here", "never"] });
    const received = await new Files(other, channel, options).receive(
      "here",
      async (incoming) => {
        const parts: Buffer[] = [];
        for await (const part of incoming) {
          parts.push(part);
          for (const key of (await server.command("KEYS", `file-chunks:${channel}*`)) as string[]) {
            highest = Math.max(highest, Number(await server.command("HLEN", key)));
          }
        }
        expect(Buffer.concat(parts).equals(content)).toBe(true);
      },
      { files: 1 },
    );
    expect(received).toEqual({ files: 1, missed: [] });
    expect((await publishing).dropped).toBe(1);
    expect(highest).toBeLessThanOrEqual(4);
    await files.end();
    const late = await new Files(other, channel, options).receive("never", () =>
      expect.unreachable(),
    );
    expect(late).toEqual({ files: 0, missed: ["two.bin"] });
    await new Files(redis, channel).receive("here", () => expect.unreachable());
    await expectNothingLeft();
  });

  test("a receiver that fails in the middle goes on where it was", async () => {
    const channel = fresh();
    const { path, content } = await file("three.bin", 1_100 * KIB);
    const target = join(folder, "saved");
    const files = new Files(redis, channel, { chunkBytes: 128 * KIB });
    const publishing = files.publish(path, { receivers: ["r"] });
    const save = saveTo(target);
    let chunks = 0;
    const failing = new Files(other, channel).receive("r", (incoming) =>
      save({
        ...{ name: incoming.name, size: incoming.size, offset: incoming.offset, sha256: undefined },
        async *[Symbol.asyncIterator]() {
          for await (const chunk of incoming) {
            chunks += 1;
            if (chunks === 4) throw new Error("crash");
            yield chunk;
          }
        },
      }),
    );
    await expect(failing).rejects.toThrow("crash");
    let resumedAt = 0;
    await new Files(other, channel).receive(
      "r",
      (incoming) => {
        resumedAt = incoming.offset;
        return save(incoming);
      },
      { files: 1 },
    );
    expect(resumedAt).toBe(3 * 128 * KIB);
    expect((await readFile(join(target, "three.bin"))).equals(content)).toBe(true);
    await publishing;
    await files.end();
    await new Files(redis, channel).receive("r", () => expect.unreachable());
    await expectNothingLeft();
  });

  test("a sender that fails in the middle resumes under the same id", async () => {
    const channel = fresh();
    const { path, content } = await file("four.bin", 1_500 * KIB);
    const options = { chunkBytes: 128 * KIB, limitBytes: 256 * KIB };
    const controller = new AbortController();
    const first = new Files(redis, channel, options).publish(path, {
      receivers: ["r"],
      id: "resumed",
      signal: controller.signal,
      onProgress: ({ bytes }) => bytes >= 256 * KIB && controller.abort(),
    });
    await expect(first).rejects.toMatchObject({ code: "ABORTED" });
    const [view] = (await Files.transfers(redis)).items;
    expect(view).toMatchObject({ id: "resumed", channel, name: "four.bin", sent: 2 });
    const receiving = new Files(other, channel, options).receive(
      "r",
      async (incoming) => expect((await collect(incoming)).equals(content)).toBe(true),
      { files: 1 },
    );
    await new Files(redis, channel, options).publish(path, { receivers: ["r"], id: "resumed" });
    expect(await receiving).toEqual({ files: 1, missed: [] });
    await new Files(redis, channel).end();
    await new Files(redis, channel).receive("r", () => expect.unreachable());
    await expectNothingLeft();
  });

  test("a resumed transfer keeps its chunk size, whatever its sender is given now", async () => {
    const channel = fresh();
    const { path, content } = await file("five.bin", 1_000 * KIB);
    const options = { chunkBytes: 128 * KIB, limitBytes: 256 * KIB };
    const controller = new AbortController();
    const first = new Files(redis, channel, options).publish(path, {
      receivers: ["r"],
      id: "resized",
      signal: controller.signal,
      onProgress: ({ bytes }) => bytes >= 256 * KIB && controller.abort(),
    });
    await expect(first).rejects.toMatchObject({ code: "ABORTED" });
    const receiving = new Files(other, channel).receive(
      "r",
      async (incoming) => expect((await collect(incoming)).equals(content)).toBe(true),
      { files: 1 },
    );
    const larger = new Files(redis, channel, { chunkBytes: 1_024 * KIB });
    const sent = await larger.publish(path, { receivers: ["r"], id: "resized" });
    expect(sent).toMatchObject({ bytes: content.length, dropped: 0 });
    expect(await receiving).toEqual({ files: 1, missed: [] });
    await larger.end();
    await new Files(redis, channel).receive("r", () => expect.unreachable());
    await expectNothingLeft();
  });

  test("an id that is used again is another file, also for a receiver that has had the first", async () => {
    const channel = fresh();
    const files = new Files(redis, channel);
    const got: string[] = [];
    const receiving = new Files(other, channel).receive("r", async (incoming) => {
      got.push(String(await collect(incoming)));
    });
    const of = async function* (text: string) {
      yield Buffer.from(text);
    };
    for (const text of ["monday", "tuesday"]) {
      const sent = await files.publish(of(text), { receivers: ["r"], id: "daily" });
      expect(sent).toMatchObject({ dropped: 0 });
      const meta = `file-meta:${channel}:daily`; // expires after a minute
      const left = Number(await server.command("PTTL", meta));
      expect(left).toBeGreaterThan(0);
      expect(left).toBeLessThanOrEqual(60_000);
      await server.command("DEL", meta);
    }
    await files.end();
    expect(await receiving).toEqual({ files: 2, missed: [] });
    expect(got).toEqual(["monday", "tuesday"]);
    await expectNothingLeft();
  });

  test("a line may go over many chunks, and a character over two", async () => {
    const whole = Buffer.from(`${"ä".repeat(50)}\r\n\n${"b".repeat(70)}\nend`);
    const pieces = async function* () {
      for (let at = 0; at < whole.length; at += 7) yield whole.subarray(at, at + 7);
    };
    const got: string[] = [];
    for await (const line of lines(pieces())) got.push(line);
    expect(got).toEqual(["ä".repeat(50), "", "b".repeat(70), "end"]);
  });

  test("streams, empty files, lines and gzip", async () => {
    const channel = fresh();
    const files = new Files(redis, channel);
    const text = Array.from({ length: 1_000 }, (_, i) => `zeile ${i} ä`).join("\n");
    const seen: string[][] = [];
    const receiving = new Files(other, channel).receive("r", async (incoming) => {
      const got: string[] = [];
      for await (const line of lines(incoming.name.endsWith(".gz") ? gunzip(incoming) : incoming))
        got.push(line);
      seen.push(got);
    });
    const of = async function* (...parts: Buffer[]) {
      for (const part of parts) yield part;
    };
    await files.publish(of(gzipSync(text)), { receivers: ["r"], name: "log.gz" });
    await files.publish(of(Buffer.from("a\r\nb")), { receivers: ["r"], name: "log" });
    await files.publish(of(), { receivers: ["r"], name: "empty" });
    await files.end();
    await receiving;
    expect(seen).toEqual([text.split("\n"), ["a", "b"], []]);
    await expectNothingLeft();
  });

  test("wrong values are refused", async () => {
    const files = new Files(redis, fresh());
    for (const receivers of [[], ["a", "a"], [""], undefined]) {
      await expect(files.publish("x", { receivers } as never)).rejects.toThrow(InvalidOptionError);
    }
    expect(() => new Files(redis, "c", { chunkBytes: 10 })).toThrow(InvalidOptionError);
    await expect(files.publish(join(folder, "missing"), { receivers: ["r"] })).rejects.toThrow(
      InvalidArgumentError,
    );
    await expect(
      saveTo(folder)({ name: "..", size: 0, offset: 0, sha256: undefined } as never),
    ).rejects.toMatchObject({ code: "INVALID_NAME" });
  });
});

describe("documented programs", () => {
  test("our receivers read what theirs send", async () => {
    const channel = fresh();
    const path = await mkdtemp(join(folder, "theirs-"));
    await writeFile(join(path, "a.log"), "one\n");
    await writeFile(join(path, "b.log"), "two\nthree\n");
    const theirs = seed(server.port, "copy_logs_to_redis", path, channel, 2);
    const seen: string[] = [];
    await Promise.all(
      ["0", "1"].map((receiver) =>
        new Files(redis, channel).receive(receiver, async (incoming) => {
          for await (const line of lines(incoming))
            seen.push(`${receiver} ${incoming.name} ${line}`);
        }),
      ),
    );
    await theirs.result;
    expect(seen.sort()).toEqual([
      "0 a.log one",
      "0 b.log three",
      "0 b.log two",
      "1 a.log one",
      "1 b.log three",
      "1 b.log two",
    ]);
    await new Files(redis, channel).end();
    await expectNothingLeft();
  }, 30_000);

  test("their receivers read what ours send, and ten of them are counted as numbers", async () => {
    const channel = fresh();
    const receivers = Array.from({ length: 10 }, (_, i) => String(i));
    const files = new Files(redis, channel);
    const of = async function* (text: string) {
      yield Buffer.from(text);
    };
    const publishing = (async () => {
      for (const name of ["x.log", "y.log"]) {
        await files.publish(of(`${name} 1\n${name} 2\n`), { receivers, name, wire: "documented" });
      }
    })();
    await eventually(async () => expect(await server.command("EXISTS", `${channel}x.log`)).toBe(1));
    const early = seed(server.port, "process_logs_from_redis", "0");
    const second = seed(server.port, "process_logs_from_redis", "1");
    await eventually(async () =>
      expect(await server.command("GET", `${channel}x.log:done`)).toBe("2"),
    );
    expect(await server.command("EXISTS", `${channel}x.log`)).toBe(1); // "2" >= "10" is true for strings
    const rest = receivers
      .slice(2)
      .map((receiver) =>
        new Files(other, channel).receive(
          receiver,
          async (incoming) => void (await collect(incoming)),
        ),
      );
    await publishing;
    await files.end();
    const expected = ["x.log", "y.log"].flatMap((name) => [
      [name, `${name} 1`],
      [name, `${name} 2`],
    ]);
    expect(await early.result).toEqual(expected);
    expect(await second.result).toEqual(expected);
    await Promise.all(rest);
    for (const receiver of ["0", "1"])
      await seed(server.port, "leave_chat", channel, receiver).result;
    await server.command("DEL", `chat-live:${channel}`, `chat-sends:${channel}`);
    await expectNothingLeft();
  }, 60_000);
});
