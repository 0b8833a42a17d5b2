import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import type { CallOptions } from "../src/index.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();
const echo = { echo: ([value]: unknown[]) => value };

test.each([
  { timeoutMs: Number.POSITIVE_INFINITY },
  { timeoutMs: Number.NaN },
  { timeoutMs: 0 },
  { timeoutMs: -1 },
  { timeoutMs: 1e21 },
  { timeoutMs: "5" },
  { signal: {} },
  { idempotent: 1 },
  { whenDown: "wait" },
  { onProgress: 7 },
  { metadata: { a: 1 } },
  { metadata: [] },
  { timeout: 5 },
])("a call refuses %j and sends nothing", async (options) => {
  const client = await stage.client();
  const refused = expect.objectContaining({ code: "INVALID_OPTION" });
  await expect(client.call("demo.echo", [], options as CallOptions)).rejects.toEqual(refused);
  await expect(client.submit("demo.echo", [], options as never)).rejects.toEqual(refused);
  expect(() => client.stream("demo.echo", [], options as never)).toThrow(refused);
  expect(await stage.server.command("DBSIZE")).toBe(0);
});

test.each([[undefined], [null], [5], ["text"], [() => 1], [{ toJSON: () => 5 }], [1n]])(
  "params %s are refused by the caller",
  async (params) => {
    const client = await stage.client();
    const given = params === undefined ? { toJSON: () => undefined } : params;
    await expect(client.call("demo.echo", given)).rejects.toMatchObject({ code: "INVALID_PARAMS" });
    await expect(client.notify("demo.echo", given)).rejects.toMatchObject({
      code: "INVALID_PARAMS",
    });
    expect(await stage.server.command("DBSIZE")).toBe(0);
  },
);

test("a namespace with quotes works", async () => {
  const ns = 'a"b\\c';
  await stage.serve(echo, { ns });
  const client = await stage.client({ ns });
  await client.call("demo.echo", [1]);
  await client.discover();
  await expect(client.call("demo.echo", [2])).resolves.toBe(2);
  await expect(all(client.stream("demo.echo", [3]))).resolves.toEqual([3]);
});

test("whenDown fails notifications, submitted calls and streams at once, too", async () => {
  const client = await stage.client({ whenDown: "fail" });
  const unavailable = { code: "UNAVAILABLE" };
  await expect(client.notify("demo.echo")).rejects.toMatchObject(unavailable);
  await expect(client.submit("demo.echo")).rejects.toMatchObject(unavailable);
  await expect(all(client.stream("demo.echo"))).rejects.toMatchObject(unavailable);
  await stage.serve(echo);
  await eventually(async () => {
    await expect(all(client.stream("demo.echo", [1]))).resolves.toEqual([1]);
  });
});

test("one malformed message of a client does not slow its other calls", async () => {
  await stage.serve(echo, { heartbeatMs: 60_000 }); // its key outlives any pause of the machine
  const client = await stage.client();
  await client.call("demo.echo", [1]);
  await client.discover();
  const head = `{"dl":${Date.now() + 600_000},"id":"x.1","rt":"/api/t/reply/x"`;
  await stage.server.command("LPUSH", "/api/t/request/demo", `${head},"version":"2","method":5}`);
  await eventually(async () => {
    expect(await stage.server.command("LLEN", "/api/t/reply/x")).toBe(1); // where its caller reads
  });
  const before = await pushes();
  await Promise.all(Array.from({ length: 500 }, (_, i) => client.call("demo.echo", [i])));
  expect((await pushes()) - before).toBeLessThan(250); // under documented keys it would be 500
});

async function pushes(): Promise<number> {
  const stats = String(await stage.server.command("INFO", "commandstats"));
  return Number(/cmdstat_lpush:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}
