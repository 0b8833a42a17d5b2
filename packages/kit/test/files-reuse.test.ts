/** A channel that is used again while its receivers are about to leave it. */
import { describe, expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { resolveChatOptions } from "../src/chat/options.ts";
import { ChatStore } from "../src/chat/store.ts";
import { Files, type ReceivedFile } from "../src/files/index.ts";
import { twoConnections } from "./two-connections.ts";

const { redis, other, fresh: name } = await twoConnections("reuse");
const fresh = () => `${name()}:`;
/** In no other room: a feed looks for new rooms more often while it has none. */
const somebody = () => `r-${name()}`;

async function* of(text: string): AsyncGenerator<Buffer, void> {
  yield Buffer.from(text);
}

const reader = (got: string[]) => async (file: ReceivedFile) => {
  for await (const _ of file);
  got.push(file.name);
};

describe("a channel that is used again after its end", () => {
  /** A channel that has ended, with a receiver that has not seen the end. */
  const ended = async () => {
    const [channel, r] = [fresh(), somebody()];
    const [files, receiver] = [new Files(redis, channel), new Files(other, channel)];
    const got: string[] = [];
    const receiving = receiver.receive(r, reader(got), { files: 1 });
    await files.publish(of("one"), { receivers: [r], name: "one" });
    await receiving;
    await files.end();
    const toTheEnd = () => receiver.receive(r, reader(got));
    return { channel, r, files, got, toTheEnd };
  };

  test("gives a file to a receiver that leaves before the announcement", async () => {
    const { r, files, got, toTheEnd } = await ended();
    let again = toTheEnd();
    // On this wire a file is announced when its content was read.
    async function* leaving() {
      expect(await again).toEqual({ files: 0, missed: [] });
      again = toTheEnd();
      yield Buffer.from("two");
    }
    const how = { receivers: [r], name: "two", wire: "documented" } as const;
    expect(await files.publish(leaving(), how)).toMatchObject({ dropped: 0 });
    await files.end();
    expect(await again).toEqual({ files: 1, missed: [] });
    expect(got).toEqual(["one", "two"]);
  });

  test("is made again if the last one leaves before the announcement", async () => {
    const { channel, r, files, got, toTheEnd } = await ended();
    let again = toTheEnd();
    async function* ending() {
      await new Files(other, channel).end();
      await again;
      expect(await new Chat(redis).room(channel).inspect()).toMatchObject({ members: 0 });
      again = toTheEnd();
      yield Buffer.from("two");
    }
    const how = { receivers: [r], name: "two", wire: "documented" } as const;
    expect(await files.publish(ending(), how)).toMatchObject({ dropped: 0 });
    await files.end();
    expect(await again).toEqual({ files: 1, missed: [] });
    expect(got).toEqual(["one", "two"]);
  });

  test("loses no file, however often", async () => {
    const [channel, receivers] = [fresh(), [somebody(), somebody()]];
    const stop = new AbortController();
    const got = receivers.map((): string[] => []);
    const missed: string[] = [];
    const receiving = receivers.map(async (r, i) => {
      const files = new Files(other, channel);
      while (!stop.signal.aborted) {
        const how = { signal: stop.signal };
        missed.push(...(await files.receive(r, reader(got[i] as string[]), how)).missed);
      }
    });
    const files = new Files(redis, channel, { leaseMs: 5_000 });
    const names = Array.from({ length: 15 }, (_, i) => `f${i}`);
    for (const one of names) {
      expect(await files.publish(of(one), { receivers, name: one })).toMatchObject({ dropped: 0 });
      await files.end();
    }
    stop.abort();
    await Promise.all(receiving);
    expect({ got, missed }).toEqual({ got: [names, names], missed: [] });
  });
});

test("a member leaves at a message only if that is the newest one of the same room", async () => {
  const store = new ChatStore(redis, resolveChatOptions());
  const [id, user] = [fresh(), somebody()];
  const room = await new Chat(redis).create({ sender: "s", recipients: [user], message: 1, id });
  const [first] = await room.pending(user);
  if (first === undefined) throw new Error("no message");
  const second = { ...first, id: await room.send("s", 2) };
  expect(await store.leave(id, user, first)).toBe("stays");
  expect(await store.leave(id, user, { ...second, sentAt: first.sentAt - 5_000 })).toBe("stays");
  const [, newest] = await room.pending(user);
  expect(await store.leave(id, user, newest)).toBe(1);
  expect(await store.leave(id, user, newest)).toBeUndefined();
});

test("a message that makes its readers members changes nothing for those that are", async () => {
  const store = new ChatStore(redis, resolveChatOptions());
  const [id, a, b] = [fresh(), somebody(), somebody()];
  const room = await new Chat(redis).create({ sender: "s", recipients: [a], message: 1, id });
  expect(await store.append(id, "s", { json: "2", readers: [a, b] })).toBe(2);
  expect((await room.pending(a)).map(({ message }) => message)).toEqual([1, 2]);
  expect((await room.pending(b)).map(({ message }) => message)).toEqual([2]);
  expect(await store.places(b, 10)).toEqual([{ name: id, cursor: 1 }]);
  expect(await store.membership(id, b)).toEqual({ cursor: 1, joinedAfter: 1 });
});
