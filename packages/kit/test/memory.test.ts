// A Redis without memory refuses what needs more of it. What frees memory, or lets others free it, goes on.
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterEach, expect, test } from "vitest";
import { GroupMembers, RecentContacts } from "../src/autocomplete/index.ts";
import { Chat } from "../src/chat/index.ts";
import { Files } from "../src/files/index.ts";
import { Lock } from "../src/lock/index.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { Semaphore } from "../src/semaphore/index.ts";

const { server, redis } = await redisForFile({ config: ["maxmemory-policy noeviction"] });
const limit = (bytes: string) => server.command("CONFIG", "SET", "maxmemory", bytes);
const full = () => limit("1");

afterEach(() => limit("0"));

test("a lock is extended, handed over and released; a new one is refused and leaves nothing", async () => {
  const lock = new Lock(redis, "l");
  const held = await lock.acquire();
  const waiting = new Lock(redis, "l").acquire();
  await eventually(async () =>
    expect(await server.command("ZCARD", lockKeys("", "l").queue)).toBe(1),
  );
  await full();
  await held.extend();
  expect(await held.release()).toBe(true);
  const next = await waiting;
  expect(await next.release()).toBe(true);
  await expect(new Lock(redis, "new").acquire({ waitMs: 0 })).rejects.toMatchObject({
    code: "OUT_OF_MEMORY",
  });
  expect(await server.command("EXISTS", ...lockKeys("", "new").all)).toBe(0);
});

test("a waiter keeps its place while there is no memory", async () => {
  const held = await new Lock(redis, "w").acquire();
  const waiting = new Lock(redis, "w").acquire({ waitMs: 10_000 });
  await eventually(async () =>
    expect(await server.command("ZCARD", lockKeys("", "w").queue)).toBe(1),
  );
  await full();
  await new Promise((resolve) => setTimeout(resolve, 1_700)); // a renewal of the place
  await held.release();
  await (await waiting).release();
});

test("a permit is refreshed, handed over and released", async () => {
  const semaphore = new Semaphore(redis, "s");
  const permit = await semaphore.acquire();
  const waiting = semaphore.acquire();
  await eventually(async () => expect(await server.command("ZCARD", "s:queue")).toBe(1));
  await full();
  await permit.refresh();
  expect(await permit.release()).toBe(true);
  expect(await (await waiting).release()).toBe(true);
  await expect(semaphore.acquire({ waitMs: 0 })).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
});

test("a permit is refreshed and released beside a documented program that was not seen before", async () => {
  const semaphore = new Semaphore(redis, "beside", { limit: 3 });
  const permit = await semaphore.acquire();
  await server.command("ZADD", "beside", String(Date.now() / 1_000), "uuid");
  await full();
  await expect(semaphore.acquire({ waitMs: 0 })).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
  await permit.refresh();
  expect(await permit.release()).toBe(true);
});

test("messages are received, given back, come back and are acknowledged", async () => {
  const mailbox = new Mailbox<number>(redis, "m", { leaseMs: 50 });
  for (let n = 0; n < 3; n++) await mailbox.send(n);
  await full();
  await expect(mailbox.send(3)).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
  const [first] = await mailbox.receive();
  await first?.release();
  await mailbox.receive({ max: 3 });
  const back = await eventually(async () => {
    const got = await mailbox.receive({ max: 3, waitMs: 200 });
    expect(got.length).toBeGreaterThan(0);
    return got;
  });
  expect(await mailbox.acknowledge(back)).toEqual(back.map(() => true));
});

test("what is refused says why, also where it is a plain command", async () => {
  const semaphore = new Semaphore(redis, "resized");
  await full();
  const refusal = { code: "OUT_OF_MEMORY" };
  await expect(semaphore.resize(5)).rejects.toMatchObject(refusal);
  await semaphore.resize(undefined);
  const made = new Chat(redis).create({ sender: "a", recipients: [], message: "x" });
  await expect(made).rejects.toMatchObject(refusal);
  expect(await server.command("EXISTS", "resized:limit", "ids:chat:")).toBe(0);
});

test("names to complete are refused and removed", async () => {
  const [contacts, members] = [new RecentContacts(redis, "u"), new GroupMembers(redis, "g")];
  await contacts.add("old");
  await members.add("old");
  await full();
  const refusal = { code: "OUT_OF_MEMORY" };
  await expect(contacts.add("new")).rejects.toMatchObject(refusal);
  await expect(contacts.add("old")).rejects.toMatchObject(refusal);
  await expect(members.add("new")).rejects.toMatchObject(refusal);
  expect(await contacts.search("")).toEqual(["old"]);
  expect(await contacts.remove("old")).toBe(true);
  expect(await members.remove("old")).toBe(true);
});

test("rooms are read, acknowledged and left", async () => {
  const chat = new Chat<string>(redis);
  const room = await chat.create({ sender: "a", recipients: ["b"], message: "x" });
  await full();
  await expect(room.send("a", "y")).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
  expect((await chat.pending("b")).items).toHaveLength(1);
  expect(await room.acknowledge("b", 1)).toBe(1);
  expect(await room.acknowledge("a", 1)).toBe(1);
  for (const user of ["a", "b"]) expect(await room.leave(user)).toBe(true);
  expect(
    await server.command(
      "EXISTS",
      `chat:${room.id}`,
      `msgs:${room.id}`,
      `ids:${room.id}`,
      "seen:a",
      "seen:b",
    ),
  ).toBe(0);
});

test("a file that finds no memory waits until there is some, and receivers go on meanwhile", {
  timeout: 60_000,
}, async () => {
  const files = new Files(redis, "f:", { chunkBytes: 131_072, limitBytes: 1_048_576 });
  let sent = 0;
  const content = async function* () {
    for (let i = 0; i < 20; i++) yield Buffer.alloc(131_072, i);
  };
  const onProgress = ({ bytes }: { bytes: number }) => {
    sent = bytes;
  };
  const publishing = files.publish(content(), { receivers: ["r"], name: "n", onProgress });
  await eventually(() => expect(sent).toBeGreaterThanOrEqual(6 * 131_072)); // more than the receiver needs below
  await full();
  let bytes = 0;
  const receiving = new Files(redis, "f:").receive(
    "r",
    async (file) => {
      for await (const chunk of file) {
        bytes += chunk.length;
        if (bytes === 5 * 131_072) await limit("0");
      }
    },
    { files: 1 },
  );
  expect(await receiving).toEqual({ files: 1, missed: [] });
  expect(await publishing).toMatchObject({ bytes: 20 * 131_072, dropped: 0 });
});
