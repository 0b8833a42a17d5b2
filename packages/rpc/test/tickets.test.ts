import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import type { CallContext } from "../src/index.ts";
import { createClient } from "../src/index.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();
const REQUEST = "/api/t/request/demo";

test("any number of polls of one ticket get the result, here and elsewhere", async () => {
  const client = await stage.client();
  const other = await stage.client();
  const ticket = await client.submit("demo.echo", [7]);
  const polls = [client, client, other].map((each) => each.poll(ticket, { waitMs: 5_000 }));
  await stage.serve({ echo: ([value]: unknown[]) => value });
  for (const result of await Promise.all(polls)) expect(result).toEqual({ result: 7 });
  expect(await other.poll(ticket)).toEqual({ result: 7 });
});

test("progress ends with its call although the response was taken by another program", async () => {
  await stage.serve({
    work: async (_: unknown, context: CallContext) => {
      context.progress(0.5, "half");
      return "done";
    },
  });
  const client = await stage.client();
  const ticket = await client.submit("demo.work");
  const [, id] = ticket.split("/");
  await stage.server.command("BRPOP", `/api/t/response/${id}`, "10");
  const reports = await all(client.progress(ticket));
  expect(reports).toMatchObject([{ percent: 0.5, message: "half" }]);
});

test("a handler that reports progress in a loop fills no list", async () => {
  await stage.serve({
    loop: async (_params, context) => {
      for (let i = 0; i < 20_000; i++) context.progress(i / 20_000);
      return "done";
    },
  });
  const client = await stage.client();
  const ticket = await client.submit("demo.loop", [], { track: true });
  expect(await client.poll(ticket, { waitMs: 10_000 })).toEqual({ result: "done" });
  const reports = await all(client.progress(ticket));
  expect(reports.length).toBeGreaterThanOrEqual(1_000);
  expect(reports.length).toBeLessThan(1_100); // the others came within the same second
  const heard: number[] = [];
  await client.call("demo.loop", [], { onProgress: ({ percent }) => heard.push(percent) });
  expect(heard.length).toBeLessThan(1_100);
  expect(heard.slice(0, 3)).toEqual([0, 1 / 20_000, 2 / 20_000]);
});

test("close() ends polls and progress", async () => {
  const client = await createClient(stage.redis, { ns: "t" });
  const ticket = await client.submit("demo.work");
  const settled = Promise.allSettled([
    client.poll(ticket, { waitMs: 60_000 }),
    all(client.progress(ticket)),
  ]);
  await new Promise((resolve) => setTimeout(resolve, 50));
  await client.close();
  expect(await settled).toMatchObject([
    { status: "rejected", reason: { code: "CLOSED" } },
    { status: "rejected", reason: { code: "CLOSED" } },
  ]);
});

test("cancel() takes a waiting call out of its queue, and tells who polls", async () => {
  const client = await stage.client();
  const keep = await client.submit("demo.echo", [1]);
  const ticket = await client.submit("demo.echo", [2]);
  const polled = expect(client.poll(ticket, { waitMs: 5_000 })).rejects.toMatchObject({
    code: "CANCELLED",
  });
  await client.cancel(ticket);
  expect(await stage.server.command("LLEN", REQUEST)).toBe(1);
  await polled;
  const runs: unknown[] = [];
  await stage.serve({ echo: ([value]: unknown[]) => runs.push(value) });
  await expect(client.poll(keep, { waitMs: 5_000 })).resolves.toEqual({ result: 1 });
  expect(runs).toEqual([1]);
});

test("a cancel that comes before its call refuses it", async () => {
  const runs: unknown[] = [];
  const server = await stage.serve({ echo: ([value]: unknown[]) => runs.push(value) });
  const { ctl } = (await (await stage.client()).discover())[0]?.workers[0] ?? {};
  await stage.server.command("LPUSH", ctl ?? "", '{"id":"x","cancel":true}');
  await eventually(async () => expect(await stage.server.command("LLEN", ctl ?? "")).toBe(0));
  await server.pause();
  await server.resume(); // both went through the same loop: the cancel has been read
  const call = { id: "x", version: "2", method: "echo", params: [1] };
  await stage.server.command("LPUSH", REQUEST, JSON.stringify(call));
  const [, answer] = (await stage.server.command("BRPOP", "/api/t/response/x", "10")) as string[];
  expect(JSON.parse(answer ?? "")).toMatchObject({ error: { code: -32002 } });
  expect(runs).toEqual([]);
});

test("a ticket has a random id", async () => {
  const client = await stage.client();
  const tickets = await Promise.all([client.submit("demo.a"), client.submit("demo.a")]);
  const ids = tickets.map((ticket) => ticket.split("/")[1] ?? "");
  expect(ids[0]?.slice(0, 23)).not.toBe(ids[1]?.slice(0, 23));
  await expect(client.poll("nonsense")).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
});

test("responses expire", async () => {
  for (const atLeastOnce of [false, true]) {
    const server = await stage.serve({ echo: () => 1 }, { atLeastOnce, resultTtlSeconds: 30 });
    const client = await stage.client();
    const ticket = await client.submit("demo.echo");
    await client.poll(ticket, { waitMs: 5_000 });
    const key = `/api/t/response/${ticket.split("/")[1]}`;
    await eventually(async () => {
      const ttl = Number(await stage.server.command("TTL", key));
      expect(ttl).toBeGreaterThan(0);
      expect(ttl).toBeLessThanOrEqual(30);
    });
    await server.close();
  }
});

test.each(["older", "newer"])(
  "cancel() takes out the call with this id, not a %s one that has it in its params",
  async (age) => {
    const client = await stage.client();
    const ticket = await client.submit("demo.echo", [1]);
    const [, id] = ticket.split("/");
    const follow = await client.submit("demo.echo", { id });
    if (age === "older") await stage.server.command("LMOVE", REQUEST, REQUEST, "RIGHT", "LEFT");
    await client.cancel(ticket);
    const [left] = (await stage.server.command("LRANGE", REQUEST, "0", "-1")) as string[];
    expect(JSON.parse(left ?? "").id).toBe(follow.split("/")[1]);
  },
);

test("a ticket that is none fails its own poll, and none beside it", async () => {
  await stage.serve({ echo: ([value]: unknown[]) => value });
  const client = await stage.client();
  const ticket = await client.submit("demo.echo", [7]);
  const [good, bad] = await Promise.allSettled([
    client.poll(ticket, { waitMs: 5_000 }),
    client.poll("nobody/0"), // in the same event, so both are one command
  ]);
  expect(good).toEqual({ status: "fulfilled", value: { result: 7 } });
  expect(bad).toMatchObject({ status: "rejected", reason: { code: "INVALID_NAME" } });
  await expect(all(client.progress("nobody/0"))).rejects.toMatchObject({ code: "INVALID_NAME" });
});

test("cancel() reaches a worker that has just started", async () => {
  const client = await stage.client();
  await client.call("demo.wait", [], { timeoutMs: 20 }).catch(() => {}); // the client has seen no worker
  let began = 0;
  const wait = async (_: unknown, { signal }: CallContext) => {
    began += 1;
    await new Promise((resolve) => signal.addEventListener("abort", resolve, { once: true }));
    signal.throwIfAborted();
  };
  const server = await stage.serve({ wait });
  const ticket = await client.submit("demo.wait");
  await eventually(() => expect(began).toBe(1));
  await client.cancel(ticket);
  await expect(client.poll(ticket, { waitMs: 10_000 })).rejects.toMatchObject({
    code: "CANCELLED",
  });
  expect(server.stats().running).toBe(0);
});
