import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import type { CallContext } from "../src/index.ts";
import { StreamReceiver } from "../src/stream/stream-receiver.ts";
import { StreamSender } from "../src/stream/stream-sender.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();

test("a cancelled duplex call that waits for input gives its slot back at once", async () => {
  const server = await stage.serve({
    async *echo(_: unknown, { incoming }: CallContext) {
      for await (const item of incoming) yield item;
    },
  });
  const client = await stage.client();
  const abort = new AbortController();
  async function* input() {
    yield 1;
    await new Promise(() => {});
  }
  const stream = client.duplex("demo.echo", [], {
    outgoing: input(),
    options: { signal: abort.signal },
  });
  await expect(stream.next()).resolves.toEqual({ value: 1, done: false });
  expect(server.stats().running).toBe(1);
  abort.abort();
  await expect(stream.next()).rejects.toMatchObject({ code: "CANCELLED" });
  await eventually(() => expect(server.stats().running).toBe(0));
});

test("a stream under way gets its credit while its server closes", async () => {
  const server = await stage.serve({
    async *count([n]: [number]) {
      for (let i = 1; i <= n; i++) yield i;
    },
  });
  const client = await stage.client({ window: 8 });
  const stream = client.stream("demo.count", [500]);
  await stream.next();
  const closed = server.close();
  await expect(all(stream)).resolves.toHaveLength(499);
  await closed;
});

test("return() ends a next() that waits", async () => {
  await stage.serve({
    async *silent(_: unknown, { signal }: CallContext) {
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      yield 1;
    },
  });
  const stream = (await stage.client()).stream("demo.silent");
  const next = stream.next();
  await stream.return?.();
  await expect(next).resolves.toEqual({ value: undefined, done: true });
});

test("a stream of a worker that knows only the documented keys is its one result", async () => {
  const client = await stage.client({ timeoutMs: 5_000 });
  for (const payload of [{ result: 7 }, { error: { code: -32602, message: "bad" } }]) {
    const items = all(client.stream("user.list", [1]));
    items.catch(() => {}); // expected below
    const [, text] = (await stage.server.command("BRPOP", "/api/t/request/user", "10")) as string[];
    const { id } = JSON.parse(text ?? "");
    const key = `/api/t/response/${id}`;
    await stage.server.command("LPUSH", key, JSON.stringify({ id, ...payload }));
    if ("result" in payload) await expect(items).resolves.toEqual([7]);
    else await expect(items).rejects.toMatchObject({ code: "INVALID_PARAMS" });
  }
});

test("credit is a total: granted twice, it counts once", async () => {
  const posted: string[] = [];
  const post = (text: string) => void posted.push(text);
  const sender = new StreamSender({ id: "i", upto: 2, maxMessageBytes: 1e6, post });
  expect(sender.send(1)).toBeUndefined();
  const wait = sender.send(2);
  expect(wait).toBeInstanceOf(Promise);
  sender.control({ upto: 4 });
  await wait;
  sender.control({ upto: 4 }); // doubled on its way
  expect(sender.send(3)).toBeUndefined();
  expect(sender.send(4)).toBeInstanceOf(Promise);
  const granted: string[] = [];
  const receiver = new StreamReceiver({
    window: 4,
    control: (members) => void granted.push(members),
    abandoned: () => {},
    finished: () => {},
  });
  receiver.receive({ seq: 1, items: [1, 2, 3, 4] });
  receiver.receive({ seq: 1, items: [1, 2, 3, 4] });
  for (let i = 0; i < 4; i++) await receiver.next();
  expect(granted).toEqual(['"upto":6,"ack":1', '"upto":8,"ack":1']);
});
