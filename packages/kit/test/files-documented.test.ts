/** Files on the documented wire: who gets them, and who is counted. */
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@ropeway/testkit";
import { afterAll, describe, expect, test, vi } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { Files, type ReceivedFile, saveTo } from "../src/files/index.ts";
import { doneKey } from "../src/files/keys.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh: name } = await twoConnections("documented");
const folder = await mkdtemp(join(tmpdir(), "ropeway-documented-"));
afterAll(() => rm(folder, { recursive: true, force: true }));

const fresh = () => `${name()}:`;
/** In no other room: a feed looks for new rooms more often while it has none. */
const somebody = () => `r-${name()}`;

async function* of(text: string): AsyncGenerator<Buffer, void> {
  yield Buffer.from(text);
}

describe("the documented wire", () => {
  test("a receiver that comes after the file was removed misses it, and keeps what it had saved", async () => {
    const [channel, r] = [fresh(), somebody()];
    const files = new Files(redis, channel, { leaseMs: 50 });
    const options = { receivers: [r], name: "log", wire: "documented" } as const;
    expect(await files.publish(of("lines"), options)).toMatchObject({ dropped: 1 });
    await writeFile(join(folder, "log"), "of yesterday");
    const receive = () => new Files(other, channel).receive(r, saveTo(folder));
    const receiving = receive();
    await files.end();
    expect(await receiving).toEqual({ files: 0, missed: ["log"] });
    expect(await readFile(join(folder, "log"), "utf8")).toBe("of yesterday");

    // An empty file is one that is there.
    const next = receive();
    const empty = new Files(redis, channel).publish(of(""), options);
    await eventually(async () => expect((await empty).dropped).toBe(0));
    await files.end();
    expect(await next).toEqual({ files: 1, missed: [] });
    expect(await readFile(join(folder, "log"), "utf8")).toBe("");
  });

  test("a member of the channel that is no receiver of a file is not counted", async () => {
    const [channel, earlier, r] = [fresh(), somebody(), somebody()];
    const files = new Files(redis, channel);
    const wire = "documented";
    const receive = (receiver: string) =>
      new Files(other, channel).receive(receiver, saveTo(folder), { files: 1 });
    const first = receive(earlier);
    await files.publish(of("one"), { receivers: [earlier], name: "one", wire });
    await first;
    const second = files.publish(of("two"), { receivers: [r], name: "two", wire });
    expect(await receive(earlier)).toEqual({ files: 1, missed: [] });
    expect(await server.command("EXISTS", doneKey("", channel, "two"))).toBe(0);
    expect(await receive(r)).toEqual({ files: 1, missed: [] });
    expect(await second).toMatchObject({ dropped: 0 });
    await files.end();
    await Promise.all([receive(earlier), receive(r)]);
    expect(await server.command("KEYS", `*${channel}*`)).toEqual([]);
  });

  test("a receiver that finds several announcements of one name is counted once", async () => {
    const [channel, early, late] = [fresh(), somebody(), somebody()];
    const options = { receivers: [early, late], name: "again", wire: "documented" } as const;
    const impatient = new Files(redis, channel, { leaseMs: 50 });
    expect(await impatient.publish(of("old"), options)).toMatchObject({ dropped: 2 });
    const files = new Files(redis, channel);
    const publishing = files.publish(of("new"), options);
    await eventually(async () => {
      const room = await new Chat(redis).room(channel).inspect();
      expect(room?.messages).toBe(3);
    });
    const receive = (receiver: string) =>
      new Files(other, channel).receive(receiver, saveTo(folder), { files: 2 });
    expect(await receive(early)).toEqual({ files: 2, missed: [] });
    expect(await server.command("GET", doneKey("", channel, "again"))).toBe("1");
    const last = new Files(other, channel).receive(late, saveTo(folder));
    expect(await publishing).toMatchObject({ dropped: 0 });
    await files.end();
    const { files: received } = await last;
    expect(received).toBeGreaterThan(0);
    expect(await readFile(join(folder, "again"), "utf8")).toBe("new");
  });

  test("a receiver that is done gives the others one more lease", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    try {
      const channel = fresh();
      const [key, leaseMs] = [doneKey("", channel, "slow"), 60_000];
      const receivers = [somebody(), somebody()];
      const options = { receivers, name: "slow", wire: "documented" } as const;
      const publishing = new Files(redis, channel, { leaseMs }).publish(of("content"), options);
      const polled = async () => {
        await server.command("CONFIG", "RESETSTAT");
        await eventually(async () => {
          const stats = String(await server.command("INFO", "commandstats"));
          expect(Number(/cmdstat_get:calls=(\d+)/.exec(stats)?.[1] ?? 0)).toBeGreaterThan(1);
        });
      };
      await polled();
      vi.advanceTimersByTime(leaseMs - 10_000);
      await server.command("INCR", key);
      await polled();
      vi.advanceTimersByTime(leaseMs - 10_000);
      await polled();
      await server.command("INCR", key);
      expect(await publishing).toMatchObject({ dropped: 0 });
    } finally {
      vi.useRealTimers();
    }
  });

  test("a file that its sender gave up is missed", async () => {
    const [channel, r] = [fresh(), somebody()];
    const stop = new AbortController();
    const publishing = new Files(redis, channel).publish(of("lines"), {
      receivers: [r],
      name: "log",
      wire: "documented",
      signal: stop.signal,
    });
    publishing.catch(() => {});
    const room = new Chat(other).room(channel);
    await eventually(async () =>
      expect((await room.pending(r)).map(({ message }) => message)).toEqual(["", "log"]),
    );
    stop.abort();
    await expect(publishing).rejects.toThrow("aborted");
    const receiving = new Files(other, channel).receive(r, saveTo(folder));
    await new Files(redis, channel).end();
    expect(await receiving).toEqual({ files: 0, missed: ["log"] });
  });

  test("a file that is removed while it is read is missed, and not saved in part", async () => {
    const [channel, r] = [fresh(), somebody()];
    const stop = new AbortController();
    const publishing = new Files(redis, channel).publish(of("x".repeat(300_000)), {
      receivers: [r],
      name: "half",
      wire: "documented",
      signal: stop.signal,
    });
    publishing.catch(() => {});
    const handler = async (file: ReceivedFile) => {
      for await (const _block of file) {
        stop.abort();
        await publishing.catch(() => {});
      }
    };
    const receiving = new Files(other, channel).receive(r, handler);
    await expect(publishing).rejects.toThrow("aborted");
    await new Files(redis, channel).end();
    expect(await receiving).toEqual({ files: 0, missed: ["half"] });
  });
});

test("a documented file that was removed before its receiver was done leaves no count", async () => {
  const [channel, r] = [fresh(), somebody()];
  const files = new Files(redis, channel);
  let finish = () => {};
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let busy = false;
  const handler = () => {
    busy = true;
    return finished;
  };
  const receiving = new Files(other, channel).receive(r, handler, { files: 1 });
  const stop = new AbortController();
  const how = { receivers: [r], name: "n", wire: "documented", signal: stop.signal } as const;
  const sending = expect(files.publish(of("x"), how)).rejects.toThrow("sending n");
  await eventually(() => expect(busy).toBe(true));
  stop.abort();
  await sending;
  finish();
  await receiving;
  expect(await server.command("EXISTS", `${channel}n`, `${channel}n:done`)).toBe(0);
});
