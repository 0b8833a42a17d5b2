import { InvalidArgumentError, InvalidOptionError, LeaseLostError } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { type Delivery, Mailbox } from "../src/mailbox/index.ts";
import { mailboxKeys } from "../src/mailbox/keys.ts";
import { MailboxStore, type RawMessage } from "../src/mailbox/store.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis, other, fresh } = await twoConnections("box");

test("messages arrive in order, are acknowledged, and leave nothing", async () => {
  const name = fresh();
  const mailbox = new Mailbox<{ n: number }>(redis, name);
  for (let n = 0; n < 5; n++) await mailbox.send({ n }, { sender: "joe" });
  expect((await mailbox.peek({ limit: 2 })).items.map(({ message }) => message.n)).toEqual([0, 1]);
  const { cursor } = await mailbox.peek({ limit: 2 });
  expect((await mailbox.peek({ limit: 3, cursor: cursor as string })).items).toHaveLength(3);
  const got = await new Mailbox<{ n: number }>(other, name).receive({ max: 10 });
  expect(got.map(({ message }) => message.n)).toEqual([0, 1, 2, 3, 4]);
  expect(got[0]).toMatchObject({ sender: "joe", attempt: 1 });
  expect(Math.abs((got[0]?.sentAt ?? 0) - Date.now())).toBeLessThan(60_000);
  expect(await mailbox.counts()).toEqual({ waiting: 0, taken: 5, dead: 0 });
  expect(await mailbox.acknowledge(got)).toEqual([true, true, true, true, true]);
  const { sends, ...keys } = mailboxKeys("", name); // the numbers of sends expire by themselves
  expect(await server.command("EXISTS", ...Object.values(keys))).toBe(0);
  expect(Number(await server.command("PTTL", sends))).toBeGreaterThan(0);
});

test("a receiver that dies loses nothing: its messages come back in order, with their attempt", async () => {
  const name = fresh();
  const mailbox = new Mailbox<number>(redis, name, { attempts: 1_000 });
  const hasty = new Mailbox<number>(other, name, { leaseMs: 50 });
  for (let n = 0; n < 4; n++) await mailbox.send(n);
  const dead = await hasty.receive({ max: 3 });
  const back = await eventually(async () => {
    const got = await mailbox.receive({ max: 10, waitMs: 2_000 });
    if (got.length < 3) {
      await Promise.all(got.map((delivery) => delivery.release()));
      throw new Error("not back yet");
    }
    return got;
  });
  expect(back.map(({ message }) => message)).toEqual([0, 1, 2, 3]);
  expect(back[0]?.attempt).toBe(2);
  expect(dead[0]?.signal.aborted).toBe(true);
  expect(await dead[0]?.acknowledge()).toBe(false);
  await Promise.all(back.map((delivery) => delivery.extend(5_000)));
  expect(await mailbox.acknowledge(back)).toEqual([true, true, true, true]);
});

test("messages of other programs come back in their order as well", async () => {
  const name = fresh();
  const bodies = Array.from({ length: 20 }, (_, n) => JSON.stringify({ n }));
  await server.command("RPUSH", `mailbox:${name}`, ...bodies);
  await new Mailbox<{ n: number }>(other, name, { leaseMs: 10 }).receive({ max: 20 });
  const mailbox = new Mailbox<{ n: number }>(redis, name, { leaseMs: 60_000 });
  const back: number[] = [];
  await eventually(async () => {
    const got = await mailbox.receive({ max: 20 });
    back.push(...got.map(({ message }) => message.n));
    expect(back).toEqual(Array.from({ length: 20 }, (_, n) => n));
  });
});

test("an idle receiver is woken by a message, also by one that another program pushes", async () => {
  const name = fresh();
  const mailbox = new Mailbox<unknown>(redis, name);
  const receiving = mailbox.receive({ waitMs: 10_000 });
  await eventually(async () =>
    expect(await server.command("EXISTS", mailboxKeys("", name).waiters)).toBe(1),
  );
  await new Mailbox(other, name).send("ours");
  const [ours] = await receiving;
  expect(ours?.message).toBe("ours");
  await ours?.acknowledge();
  const again = mailbox.receive({ waitMs: 10_000 });
  await server.command("RPUSH", `mailbox:${name}`, '{"to":"you"}');
  const [foreign] = await again;
  expect(foreign).toMatchObject({ message: { to: "you" }, sender: undefined, sentAt: undefined });
  await foreign?.acknowledge();
});

test("listen yields until the signal aborts", async () => {
  const mailbox = new Mailbox<number>(redis, fresh());
  const controller = new AbortController();
  const seen: number[] = [];
  for (let n = 0; n < 3; n++) await mailbox.send(n);
  for await (const delivery of mailbox.listen({ signal: controller.signal })) {
    seen.push(delivery.message);
    await delivery.acknowledge();
    if (seen.length === 3) controller.abort();
  }
  expect(seen).toEqual([0, 1, 2]);
});

test("a message whose time is over is not handed out", async () => {
  const mailbox = new Mailbox<number>(redis, fresh());
  await mailbox.send(1, { ttlMs: 5 });
  await mailbox.send(2);
  await new Promise((resolve) => setTimeout(resolve, 20));
  const got = await mailbox.receive({ max: 5 });
  expect(got.map(({ message }) => message)).toEqual([2]);
  await mailbox.acknowledge(got);
});

test("what comes back too often, or is no JSON, becomes a dead letter", async () => {
  const name = fresh();
  const mailbox = new Mailbox<number>(redis, name, { leaseMs: 10, attempts: 2 });
  await mailbox.send(7);
  await server.command("RPUSH", `mailbox:${name}`, "no json");
  const attempts: number[] = [];
  await eventually(async () => {
    for (const { attempt } of await mailbox.receive({ max: 5 })) attempts.push(attempt);
    expect((await mailbox.counts()).dead).toBe(2);
  });
  expect(attempts).toEqual([1, 2]);
  const letters = (await mailbox.deadLetters()).items;
  expect(new Set(letters.map(({ message, raw }) => raw ?? message))).toEqual(
    new Set([7, "no json"]),
  );
  await mailbox.clear();
  expect(await server.command("EXISTS", ...Object.values(mailboxKeys("", name)))).toBe(0);
});

test("wrong values are refused", async () => {
  const mailbox = new Mailbox<unknown>(redis, fresh(), { maxMessageBytes: 10 });
  await expect(mailbox.send(undefined)).rejects.toThrow(InvalidArgumentError);
  await expect(mailbox.send("x".repeat(20))).rejects.toThrow(InvalidArgumentError);
  await expect(mailbox.send(1, { ttlMs: -1 })).rejects.toThrow(InvalidOptionError);
  await expect(mailbox.receive({ max: 0 })).rejects.toThrow(InvalidOptionError);
  await expect(mailbox.peek({ cursor: "x" })).rejects.toThrow(InvalidOptionError);
  expect(() => new Mailbox(redis, "x", { leaseMs: Number.NaN })).toThrow(InvalidOptionError);
});

test("a message that is released again and again becomes a dead letter", async () => {
  const mailbox = new Mailbox<string>(redis, fresh(), { attempts: 3 });
  await mailbox.send("poison");
  await mailbox.send("good");
  const seen: string[] = [];
  for (let i = 0; i < 4; i++) {
    const [delivery] = await mailbox.receive();
    seen.push(`${delivery?.message} ${delivery?.attempt}`);
    await delivery?.release();
  }
  expect(seen).toEqual(["poison 1", "poison 2", "poison 3", "good 1"]);
  expect((await mailbox.deadLetters()).items.map(({ message }) => message)).toEqual(["poison"]);
});

test("receive without a wait finds a message behind many that expired", async () => {
  const mailbox = new Mailbox<number>(redis, fresh());
  for (let i = 0; i < 350; i++) await mailbox.send(i, { ttlMs: 1 });
  await mailbox.send(1_000);
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect((await mailbox.receive()).map(({ message }) => message)).toEqual([1_000]);
});

test("messages of a receiver that died come back in order, also one by one and when they are many", async () => {
  const name = fresh();
  const mailbox = new Mailbox<number>(redis, name);
  const all = Array.from({ length: 250 }, (_, n) => n);
  for (const n of all) await mailbox.send(n, n % 50 === 7 ? { ttlMs: 60_000 } : {});
  await mailbox.receive({ max: 250 });
  const { leases, taken } = mailboxKeys("", name);
  const ids = (await server.command("ZRANGE", leases, "0", "-1")) as string[];
  for (const [n, id] of ids.entries()) await server.command("ZADD", leases, String(n + 1), id);
  const over = String(await server.command("HGET", taken, ids[7] as string));
  await server.command(
    "HSET",
    taken,
    ids[7] as string,
    over.replace(/"expires":\d+/, '"expires":1'),
  );
  const seen: number[] = [];
  for (const max of [1, 1, 100, 1, 150]) {
    const got = await mailbox.receive({ max });
    seen.push(...got.map(({ message }) => message));
    await mailbox.acknowledge(got);
  }
  expect(seen).toEqual(all.filter((n) => n !== 7));
});

test("equal messages of other programs are received one by one, and none is lost", async () => {
  const name = fresh();
  const ticks = Array.from({ length: 250 }, () => '"tick"');
  await server.command("RPUSH", `mailbox:${name}`, ...ticks);
  const mailbox = new Mailbox<string>(redis, name, { attempts: 2 });
  const { taken, tries } = mailboxKeys("", name);
  await server.command("CONFIG", "RESETSTAT");
  const got = await mailbox.receive({ max: 100 });
  const stats = String(await server.command("INFO", "commandstats"));
  const looks = Number(/cmdstat_zscore:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  expect(looks).toBeLessThanOrEqual(100); // the cost of a message does not depend on the others
  for (let i = 100; i < 250; i++) got.push(...(await mailbox.receive()));
  expect(await mailbox.counts()).toEqual({ waiting: 0, taken: 250, dead: 0 });
  expect(await server.command("HLEN", taken)).toBe(250);
  expect(new Set(got.map(({ id }) => id)).size).toBe(250);
  for (const delivery of got.splice(0, 2)) expect(await delivery.release()).toBe(true);
  const again = await mailbox.receive({ max: 2 });
  expect(again.map(({ attempt }) => attempt)).toEqual([2, 2]);
  for (const delivery of again) expect(await delivery.release()).toBe(true); // the last attempt
  expect(await mailbox.acknowledge(got)).toEqual(got.map(() => true));
  expect(await mailbox.counts()).toEqual({ waiting: 0, taken: 0, dead: 2 });
  expect(await server.command("EXISTS", taken, tries)).toBe(0);
});

test("copies of one message of ours are received one by one", async () => {
  const name = fresh();
  const mailbox = new Mailbox<string>(redis, name);
  await mailbox.send("twice");
  const { box, taken } = mailboxKeys("", name);
  const [copy] = (await server.command("LRANGE", box, "0", "-1")) as string[];
  await server.command("RPUSH", box, copy as string);
  const got = await mailbox.receive({ max: 2 });
  expect(got.map(({ message }) => message)).toEqual(["twice", "twice"]);
  expect(new Set(got.map(({ id }) => id)).size).toBe(2);
  expect(await mailbox.acknowledge(got)).toEqual([true, true]);
  expect(await server.command("EXISTS", box, taken)).toBe(0);
});

test("a message wakes a receiver that still waits, not one that died", async () => {
  const name = fresh();
  const { waiters } = mailboxKeys("", name);
  await server.command("ZADD", waiters, "1", `${name}-dead token`);
  await server.command("ZADD", waiters, String(Date.now() + 3_600_000), `${name}-alive token`);
  await new Mailbox<number>(redis, name).send(1);
  expect(await server.command("EXISTS", waiters)).toBe(0);
  await eventually(async () =>
    expect(await server.command("LRANGE", `${name}-alive`, "0", "-1")).toEqual(["token"]),
  );
  expect(await server.command("EXISTS", `${name}-dead`)).toBe(0);
});

test("large messages are handed out and acknowledged in several steps, in order", async () => {
  const name = fresh();
  const mailbox = new Mailbox<string>(redis, name, { leaseMs: 60_000 });
  const sent = Array.from({ length: 12 }, (_, i) => `${i} ${"x".repeat(300_000)}`);
  for (const message of sent) await mailbox.send(message);
  const first = await mailbox.receive({ max: 1_000 });
  expect(first).toHaveLength(4); // the one that passes 1 MiB is the last
  const got = [...first];
  while (got.length < sent.length) got.push(...(await mailbox.receive({ max: 1_000 })));
  expect(got.map(({ message }) => message)).toEqual(sent);
  await server.command("CONFIG", "RESETSTAT");
  expect(await mailbox.acknowledge(got)).toEqual(sent.map(() => true));
  const stats = String(await server.command("INFO", "commandstats"));
  expect(stats).toContain("cmdstat_evalsha:calls=4,");
  expect(await mailbox.counts()).toEqual({ waiting: 0, taken: 0, dead: 0 });
});

test("many messages are handed out in several steps, in order, and come back in order", async () => {
  const name = fresh();
  const { leases } = mailboxKeys("", name);
  const mailbox = new Mailbox<number>(redis, name, { leaseMs: 60_000 });
  const sent = Array.from({ length: 700 }, (_, i) => i);
  for (const message of sent) await mailbox.send(message);
  for (const max of [600, 1_000]) {
    await server.command("CONFIG", "RESETSTAT");
    const got = await mailbox.receive({ max });
    expect(got.map(({ message }) => message)).toEqual(sent.slice(0, max));
    const stats = String(await server.command("INFO", "commandstats"));
    expect(stats).toContain("cmdstat_evalsha:calls=3,"); // at most 250 each
    const ended = got.flatMap(({ id }, i) => [String(i + 1), id]);
    await server.command("ZADD", leases, ...ended);
  }
  await mailbox.clear();
});

test("large messages of a receiver that died come back in order", async () => {
  const name = fresh();
  const sent = Array.from({ length: 10 }, (_, i) => `${i} ${"x".repeat(300_000)}`);
  const mailbox = new Mailbox<string>(redis, name, { leaseMs: 60_000 });
  for (const message of sent) await mailbox.send(message);
  const lost = [...(await mailbox.receive({ max: 4 })), ...(await mailbox.receive({ max: 4 }))];
  expect(lost).toHaveLength(8);
  const ended = lost.flatMap(({ id }, i) => [String(i + 1), id]);
  await server.command("ZADD", mailboxKeys("", name).leases, ...ended);
  const got: string[] = [];
  while (got.length < sent.length) {
    const some = await mailbox.receive({ max: 1_000 });
    expect(some.length).toBeLessThan(5);
    got.push(...some.map(({ message }) => message));
  }
  expect(got).toEqual(sent);
  await mailbox.clear();
});

test("a late acknowledgement does not remove an equal message of another program", async () => {
  const name = fresh();
  const { box, leases } = mailboxKeys("", name);
  const mailbox = new Mailbox<string>(redis, name);
  const take = async () => (await mailbox.receive())[0];
  await server.command("RPUSH", box, '"tick"');
  const late = await take();
  await server.command("ZADD", leases, "1", String(late?.id)); // its lease ended
  expect(await (await take())?.acknowledge()).toBe(true);
  await server.command("RPUSH", box, '"tick"');
  const second = await take();
  await late?.acknowledge();
  expect((await mailbox.counts()).taken).toBe(1);
  expect(await second?.acknowledge()).toBe(true);
  expect(await server.command("KEYS", `mailbox*${name}`)).toEqual([]);
});

test("pages of large messages are short", async () => {
  const mailbox = new Mailbox<string>(redis, fresh());
  const sent = Array.from({ length: 45 }, (_, i) => `${i} ${"x".repeat(100_000)}`);
  for (const message of sent) await mailbox.send(message);
  const pages: string[][] = [];
  for (let cursor: string | undefined = "0"; cursor !== undefined; ) {
    const page: Awaited<ReturnType<typeof mailbox.peek>> = await mailbox.peek({ cursor });
    pages.push(page.items.map(({ message }) => message));
    cursor = page.cursor;
  }
  expect(pages.map(({ length }) => length)).toEqual([20, 20, 5]);
  expect(pages.flat()).toEqual(sent);
  await mailbox.clear();
});

test("an extension moves the end of the lease, and a late one changes nothing", async () => {
  const name = fresh();
  const { leases } = mailboxKeys("", name);
  const mailbox = new Mailbox<number>(redis, name, { leaseMs: 60_000 });
  const take = async () => (await mailbox.receive())[0] as Delivery<number>;
  await mailbox.send(1);
  const late = await take();
  const ends = async () => Number(await server.command("ZSCORE", leases, late.id));
  const before = await ends();
  await late.extend(600_000);
  expect(await ends()).toBeGreaterThan(before + 500_000);
  await server.command("ZADD", leases, "1", late.id); // its lease ended
  const next = await take();
  const held = await ends();
  await expect(late.extend(600_000)).rejects.toThrow(LeaseLostError);
  expect(await ends()).toBe(held);
  const store = new MailboxStore(redis, name, "");
  expect(await next.acknowledge()).toBe(true);
  const again = { id: next.id, attempt: String(next.attempt) };
  expect(await store.settle("extend", [again], { leaseMs: 60_000 })).toEqual([false]);
  expect(await mailbox.counts()).toEqual({ waiting: 0, taken: 0, dead: 0 });
});

test("a later attempt that is undone is not counted, and attempts of a message that came back expire", async () => {
  const name = fresh();
  const store = new MailboxStore(redis, name, "");
  const take = async () => {
    const { messages } = await store.take({ max: 1, leaseMs: 60_000, attempts: 5 });
    return messages[0] as RawMessage;
  };
  await new Mailbox<number>(redis, name).send(1);
  await store.settle("back", [await take()], { attempts: 5 });
  expect(Number(await server.command("PTTL", store.keys.tries))).toBeGreaterThan(0);
  const second = await take();
  expect(second.attempt).toBe("2");
  expect(await store.settle("undo", [second])).toEqual([true]);
  const again = await take();
  expect(again.attempt).toBe("2");
  await server.command("PERSIST", store.keys.tries);
  await server.command("ZADD", store.keys.leases, "1", again.id); // its lease ended
  expect((await take()).attempt).toBe("3");
  expect(Number(await server.command("PTTL", store.keys.tries))).toBeGreaterThan(0);
});

test("numbers of processes that ended are removed when there are many", async () => {
  const name = fresh();
  const { sends } = mailboxKeys("", name);
  const old = Array.from({ length: 1_000 }, (_, i) => [`ended.${i}`, "1 1"]).flat();
  await server.command("HSET", sends, ...old);
  await new Mailbox<number>(redis, name).send(1);
  expect(await server.command("HLEN", sends)).toBe(991); // ten of them for a new one
});
