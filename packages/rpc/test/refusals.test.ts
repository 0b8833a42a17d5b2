import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { ApplicationError } from "../src/index.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();
const config = (name: string, value: string) => stage.server.command("CONFIG", "SET", name, value);

test.each([
  ["without enough replicas", "min-replicas-to-write"],
  ["without memory", "maxmemory"],
])("responses survive a moment in which Redis refuses writes: %s", async (_, name) => {
  const ends: (() => void)[] = [];
  const worker = await stage.serve({
    wait: () => new Promise<string>((resolve) => ends.push(() => resolve("done"))),
  });
  const client = await stage.client();
  await client.call("demo.nothing").catch(() => {});
  const calls = Array.from({ length: 10 }, () => client.call("demo.wait"));
  await eventually(() => expect(ends).toHaveLength(10));
  await config(name, "1");
  for (const end of ends) end();
  await eventually(() => expect(worker.stats().running).toBe(0));
  await new Promise((resolve) => setTimeout(resolve, 300));
  await config(name, "0");
  await expect(Promise.all(calls)).resolves.toEqual(Array.from({ length: 10 }, () => "done"));
});

test.each([
  ["without enough replicas", "min-replicas-to-write"],
  ["without memory", "maxmemory"],
])("an at-least-once call is answered once Redis takes writes again: %s", async (_, name) => {
  let end = () => {};
  const handlers = {
    wait: () =>
      new Promise<void>((resolve) => {
        end = resolve;
      }),
  };
  const worker = await stage.serve(handlers, { atLeastOnce: true });
  const client = await stage.client();
  const call = client.call("demo.wait");
  await eventually(() => expect(worker.stats().running).toBe(1));
  await config(name, "1");
  end();
  await new Promise((resolve) => setTimeout(resolve, 300));
  await config(name, "0");
  await expect(call).resolves.toBeNull();
});

test("a call that finds no memory is refused at once with a typed error", async () => {
  await stage.serve({ echo: ([value]: unknown[]) => value });
  const client = await stage.client();
  await client.call("demo.echo", [1]);
  await config("maxmemory", "1");
  try {
    await expect(client.call("demo.echo", [1])).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
    await expect(client.submit("demo.echo", [1])).rejects.toMatchObject({ code: "OUT_OF_MEMORY" });
  } finally {
    await config("maxmemory", "0");
  }
});

test("a call waits while Redis has not enough replicas", async () => {
  await stage.serve({ echo: ([value]: unknown[]) => value });
  const client = await stage.client();
  await client.call("demo.echo", [1]);
  await config("min-replicas-to-write", "1");
  const call = client.call("demo.echo", [2]);
  await new Promise((resolve) => setTimeout(resolve, 200));
  await config("min-replicas-to-write", "0");
  await expect(call).resolves.toBe(2);
});

test("a session call waits while Redis has not enough replicas", async () => {
  await stage.serve({ echo: ([value]: unknown[]) => value }, { node: "n1", group: "g" });
  const session = (await stage.client()).session("g", "c1");
  await session.call("demo.echo", [1]);
  await config("min-replicas-to-write", "1");
  const call = session.call("demo.echo", [2], { whenDown: "fail" });
  const submitted = session.submit("demo.echo", [3]);
  await new Promise((resolve) => setTimeout(resolve, 200));
  await config("min-replicas-to-write", "0");
  await expect(call).resolves.toBe(2);
  await expect(submitted).resolves.toMatch(/^demo.echo/);
});

test("a call that is cancelled while Redis refuses writes is never sent", async () => {
  const client = await stage.client();
  const runs: unknown[] = [];
  const run = ([value]: unknown[]) => void runs.push(value);
  for (const served of [false, true]) {
    if (served) await stage.serve({ run });
    await config("min-replicas-to-write", "1");
    const abort = new AbortController();
    const { signal } = abort;
    const cancelled = client.call("demo.run", ["cancelled"], { signal });
    const stream = client.stream("demo.run", ["stream"], { signal }).next();
    const kept = client.notify("demo.run", [served]);
    const outcomes = Promise.allSettled([cancelled, stream]);
    await new Promise((resolve) => setTimeout(resolve, 150)); // refused by now
    abort.abort();
    expect(await outcomes).toMatchObject([
      { reason: { code: "CANCELLED" } },
      { reason: { code: "CANCELLED" } },
    ]);
    await config("min-replicas-to-write", "0");
    await kept;
  }
  await client.call("demo.run", ["last"]);
  expect(runs).toEqual([false, true, "last"]);
});

test.each([false, true])(
  "errors that cannot be read are answered and free their slot, exposed: %s",
  async (exposeErrors) => {
    const fail = () => {
      throw new Error("unreadable");
    };
    const proxy = new Proxy({}, { get: fail, getPrototypeOf: fail });
    const unreadable = Object.defineProperty(new Error(), "name", { get: fail });
    for (const thrown of [proxy, unreadable]) {
      const server = await stage.serve(
        {
          now: () => {
            throw thrown;
          },
          later: () => Promise.reject(thrown),
          async *stream() {
            yield 1;
            throw thrown;
          },
          echo: ([value]: unknown[]) => value,
        },
        { exposeErrors },
      );
      const client = await stage.client();
      const failed = { code: "HANDLER_FAILED" };
      await expect(client.call("demo.echo", [1])).resolves.toBe(1);
      const now = client.call("demo.now");
      const beside = client.call("demo.echo", [2]); // popped together with it
      await expect(now).rejects.toMatchObject(failed);
      await expect(beside).resolves.toBe(2);
      await expect(client.call("demo.later")).rejects.toMatchObject(failed);
      await expect(client.call("demo.stream")).rejects.toMatchObject(failed);
      await expect(all(client.stream("demo.stream"))).rejects.toMatchObject(failed);
      await eventually(() => expect(server.stats().running).toBe(0));
      await stage.clear();
    }
  },
);

test.each([false, true])(
  "an error larger than maxMessageBytes is answered with MESSAGE_TOO_LARGE, at least once: %s",
  async (atLeastOnce) => {
    const large = "x".repeat(20_000);
    await stage.serve(
      {
        data: () => {
          throw new ApplicationError(1, "m", large);
        },
        message: () => {
          throw new ApplicationError(1, large);
        },
        async *stream() {
          yield 1;
          throw new ApplicationError(1, "m", large);
        },
      },
      { maxMessageBytes: 10_000, atLeastOnce },
    );
    const client = await stage.client();
    const refused = { code: "MESSAGE_TOO_LARGE" };
    await expect(client.call("demo.data")).rejects.toMatchObject(refused);
    await expect(client.call("demo.message")).rejects.toMatchObject(refused);
    await expect(all(client.stream("demo.stream"))).rejects.toMatchObject(refused);
  },
);

test.each([
  ["without enough replicas", "min-replicas-to-write"],
  ["without memory", "maxmemory"],
])(
  "a worker that closes while Redis refuses writes for a moment still responds: %s",
  async (_, name) => {
    let end = () => {};
    const wait = () => new Promise<string>((resolve) => (end = () => resolve("done")));
    const worker = await stage.serve({ wait });
    const client = await stage.client();
    const ticket = await client.submit("demo.wait");
    await eventually(() => expect(worker.stats().running).toBe(1));
    await config(name, "1");
    const refused = await refusals();
    const closed = worker.close();
    end();
    await eventually(async () => expect(await refusals()).toBeGreaterThan(refused));
    await config(name, "0");
    await closed;
    const [key] = (await stage.server.command("KEYS", "*/response/*")) as string[];
    expect(await stage.server.command("TTL", key as string)).toBeGreaterThan(0);
    await expect(client.poll(ticket)).resolves.toMatchObject({ result: "done" });
  },
);

test("a stream continues when Redis had no memory for the caller's messages", async () => {
  const handlers = {
    async *count([n]: unknown[]) {
      for (let i = 0; i < Number(n); i++) yield i;
    },
  };
  await stage.serve(handlers, { streamIdleMs: 600_000 });
  const client = await stage.client({ streamIdleMs: 600_000 }); // no sign of life helps
  const stream = client.stream("demo.count", [20], { window: 4 });
  await stream.next();
  await config("maxmemory", "1");
  const refused = await refusals();
  for (let i = 1; i < 4; i++) await stream.next();
  await eventually(async () => expect(await refusals()).toBeGreaterThan(refused));
  await config("maxmemory", "0");
  expect(await all(stream)).toHaveLength(16);
});

/** How many commands Redis has refused for the moment. */
async function refusals(): Promise<number> {
  const stats = String(await stage.server.command("INFO", "errorstats"));
  const counts = stats.matchAll(/errorstat_(?:OOM|NOREPLICAS):count=(\d+)/g);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}
