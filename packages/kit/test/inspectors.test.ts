import { InvalidOptionError } from "@ropeway/core";
import { expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { Files } from "../src/files/index.ts";
import { Lock, LockInspector } from "../src/lock/index.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { Semaphore, SemaphoreInspector } from "../src/semaphore/index.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, fresh } = await twoConnections("i");
const long = "n".repeat(2_000);

test("locks of other programs with names that are none here do not hide the others", async () => {
  const held = await new Lock(redis, fresh()).acquire();
  const odd = fresh();
  await server.command("SET", "lock:", "theirs");
  await server.command("SET", `lock:${long}`, "theirs");
  await server.command("SET", `lock:${odd}`, "theirs");
  await server.command("SET", lockKeys("", odd).queue, "no queue");
  await server.command("SET", lockKeys("", held.name).fence, "no number");
  const { items } = await new LockInspector(redis).list();
  expect(items.map(({ name, fence }) => [name, fence])).toEqual([[held.name, undefined]]);
  await held.release();
});

test("sorted sets of other programs that look like semaphores do not hide those", async () => {
  const name = fresh();
  const permit = await new Semaphore(redis, name).acquire();
  await server.command("ZADD", ":leases", "1", "x");
  await server.command("ZADD", `${long}:leases`, "1", "x");
  await server.command("ZADD", "theirs:leases", "1", "x");
  await server.command("SET", "theirs", "x");
  const { items } = await new SemaphoreInspector(redis).list();
  expect(items).toEqual([{ name, limit: undefined, held: 1, waiting: 0 }]);
  await permit.release();
});

test("a semaphore is shown by its name, and one that is not in use is undefined", async () => {
  const name = fresh();
  const inspector = new SemaphoreInspector(redis);
  expect(await inspector.get(name)).toBeUndefined();
  const permit = await new Semaphore(redis, name, { limit: 7 }).acquire();
  expect(await inspector.get(name)).toEqual({ name, limit: undefined, held: 1, waiting: 0 });
  await permit.release();
  await new Semaphore(redis, name).resize(2);
  expect(await inspector.get(name)).toEqual({ name, limit: 2, held: 0, waiting: 0 });
  await expect(inspector.get("lock:x")).rejects.toThrow("lock:x");
});

test("rooms of other programs with ids that are none here do not hide the others", async () => {
  const chat = new Chat<string>(redis);
  const room = await chat.create({ sender: "a", recipients: ["b"], message: "m", id: fresh() });
  for (const key of ["chat:", "chat:chat:", `chat:${long}`, "chat:odd"])
    await server.command("ZADD", key, "0", "x");
  await server.command("SET", "msgs:odd", "x");
  await server.command("SET", `ids:${room.id}`, "no number");
  expect((await chat.rooms()).items).toEqual([{ id: room.id, members: 2, messages: 1, newest: 0 }]);
});

test("hashes of other programs that look like transfers do not hide those", async () => {
  const channel = fresh();
  const controller = new AbortController();
  const content = async function* () {
    yield Buffer.from("content");
  };
  const publishing = new Files(redis, channel).publish(content(), {
    receivers: ["r"],
    name: "f",
    id: "ours",
    signal: controller.signal,
    onProgress: () => controller.abort(),
  });
  await expect(publishing).rejects.toMatchObject({ code: "ABORTED" });
  await server.command("HSET", "file-meta:x", "name", "x");
  await server.command("HSET", "file-meta:x:y", "name", "x");
  await server.command("HSET", "file-meta:x:z", "name", "x", "next", "1e9", "since", "soon");
  const far = ["next", "1", "chunkBytes", "262144", "since", "9007199254740991"];
  await server.command("HSET", "file-meta:x:far", "name", "x", ...far);
  const late = ["next", "1", "chunkBytes", "262144", "since", "253402300800000"]; // the year 10000
  await server.command("HSET", "file-meta:x:late", "name", "x", ...late);
  await server.command(
    "HSET",
    "file-meta:x:inf",
    "name",
    "x",
    ...late.slice(0, -1),
    "1700000000000",
  );
  await server.command("ZADD", "file-acks:x:inf", "inf", "r");
  await server.command("HSET", `file-meta:${channel}:ours`, "size", "many", "dropped", "few");
  const { items } = await Files.transfers(redis);
  expect(items).toMatchObject([{ id: "ours", channel, size: undefined, dropped: 0 }]);
});

test("a cursor that is none of Redis is refused, and the largest one is not", async () => {
  const inspector = new LockInspector(redis);
  for (const cursor of ["99999999999999999999", "18446744073709551616", "-1", "1e3"])
    await expect(inspector.list({ cursor })).rejects.toThrow(InvalidOptionError);
  await inspector.list({ cursor: "18446744073709551615" });
});
