import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";

async function import_(from: string, to: string): Promise<void> {
  await using task = new SyncTask({ from, to });
  await task.start();
  await task.finished;
  expect(task.status).toBe("FINISH");
}

async function dirOf(server: { command(...argv: string[]): Promise<unknown> }): Promise<string> {
  return String(((await server.command("CONFIG", "GET", "dir")) as string[])[1]);
}

test("an RDB file is imported, from disk and by HTTP", async () => {
  await using source = await startRedis();
  await source.command("MSET", "a", "1", "b", "2");
  await source.command("SET", "t", "1", "PX", "100000");
  await source.command("SAVE");
  const file = join(await dirOf(source as never), "dump.rdb");
  await using target = await startRedis();
  await import_(`file:${file}`, target.url);
  expect(String(await target.command("GET", "b"))).toBe("2");
  expect(Number(await target.command("PTTL", "t"))).toBeGreaterThan(1_000);
  const server = createServer((_, response) => response.end(readFileSync(file))).listen(
    0,
    "127.0.0.1",
  );
  await eventually(() => expect(server.listening).toBe(true));
  const { port } = server.address() as AddressInfo;
  await target.command("FLUSHALL");
  await import_(`http://127.0.0.1:${port}/dump.rdb`, target.url);
  expect(String(await target.command("GET", "a"))).toBe("1");
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

test("a download that ends too early or stands still ends the task with a sentence, and can be closed", async () => {
  await using target = await startRedis();
  const server = createServer((request, response) => {
    response.writeHead(200, { "content-length": 1_000 });
    response.write("REDIS0011", () => {
      if (request.url === "/cut.rdb") response.destroy();
    });
  }).listen(0, "127.0.0.1");
  await eventually(() => expect(server.listening).toBe(true));
  const from = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    for (const name of ["cut", "silent"]) {
      await using task = new SyncTask({
        ...{ from: `${from}/${name}.rdb`, to: target.url, silenceMs: 300 },
      });
      task.on("error", () => {});
      const run = task.start().then(() => task.finished);
      await expect(run).rejects.toMatchObject({ code: "SOURCE_FILE" });
    }
    const task = new SyncTask({ from: `${from}/closed.rdb`, to: target.url });
    await task.start();
    await task.close();
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

test("an AOF folder is imported once, also when it is asked for again", async () => {
  await using source = await startRedis({ appendonly: true });
  for (let i = 0; i < 20; i++) await source.command("INCR", "n");
  await source.command("SELECT", "2");
  await source.command("RPUSH", "list", "a", "b");
  const folder = join(await dirOf(source as never), "appendonlydir");
  expect(readdirSync(folder).length).toBeGreaterThan(1);
  await using target = await startRedis();
  await import_(`file:${folder}`, target.url);
  await import_(`file:${folder}`, target.url);
  expect(String(await target.command("GET", "n"))).toBe("20");
  await target.command("SELECT", "2");
  expect(String(await target.command("LRANGE", "list", "0", "-1"))).toBe("a,b");
});

test("a server is read with SCAN and DUMP when PSYNC is not possible", async () => {
  await using source = await startRedis();
  await using target = await startRedis();
  for (let i = 0; i < 250; i++) await source.command("HSET", `h${i}`, "f", String(i));
  await source.command("SET", "t", "x".repeat(70), "PX", "100000");
  await source.command("SELECT", "4");
  await source.command("RPUSH", "l", "a", "b");
  await using task = new SyncTask({ from: source.url, to: target.url, mode: "stock", scan: true });
  await task.start();
  await task.finished;
  expect(await target.command("HGET", "h249", "f")).toBe("249");
  expect(Number(await target.command("PTTL", "t"))).toBeGreaterThan(1_000);
  await target.command("SELECT", "4");
  expect(await target.command("LLEN", "l")).toBe(2);
});

test("the password of an HTTP address goes into a header, and into no error", async () => {
  await using target = await startRedis();
  const seen: unknown[] = [];
  const server = createServer(({ headers }, response) => {
    seen.push(headers.authorization);
    response.statusCode = 403;
    response.end();
  }).listen(0, "127.0.0.1");
  await eventually(() => expect(server.listening).toBe(true));
  const { port } = server.address() as AddressInfo;
  const from = `http://ann:top%20secret@127.0.0.1:${port}/dump.rdb`;
  const failed = import_(from, target.url).catch((error: Error) => error);
  expect(String(await failed)).toContain("status 403");
  expect(seen[0]).toBe(`Basic ${Buffer.from("ann:top secret").toString("base64")}`);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  const away = await import_(from, target.url).catch((error: Error) => error);
  expect(String(away)).toContain(`cannot connect to http://127.0.0.1:${port}/dump.rdb`);
  expect(String(away)).not.toMatch(/top.*secret/);
});

const encoded = (...argv: string[]) =>
  `*${argv.length}\r\n${argv.map((word) => `$${word.length}\r\n${word}\r\n`).join("")}`;

test.each(["total", "stock", "increment"] as const)(
  "an AOF without a snapshot is applied once, also when it is asked for again: mode %s",
  async (mode) => {
    await using target = await startRedis();
    const file = join(mkdtempSync(join(tmpdir(), "ropeway-aof-")), "plain.aof");
    const head = encoded("SELECT", "0") + encoded("INCR", "n") + encoded("RPUSH", "l", "a");
    writeFileSync(file, head);
    const run = async (more: object = {}) => {
      await using task = new SyncTask({ from: `file:${file}`, to: target.url, mode, ...more });
      task.on("error", () => {});
      await task.start();
      await task.finished;
    };
    for (let i = 0; i < 3; i++) await run();
    expect(await target.command("GET", "n")).toBe("1");
    expect(await target.command("LRANGE", "l", "0", "-1")).toEqual(["a"]);
    // Which of its commands are new is not known.
    writeFileSync(file, head + encoded("INCR", "n"));
    await expect(run()).rejects.toMatchObject({ code: "SOURCE_FILE" });
    expect(await target.command("GET", "n")).toBe("1");
    await target.command("DEL", "n", "l");
    await run({ restart: true });
    await run();
    expect(await target.command("GET", "n")).toBe("2");
  },
);

test("content that changes behind a URL is read again, also from a server that says nothing about it", async () => {
  await using source = await startRedis();
  const file = join(await dirOf(source as never), "dump.rdb");
  const headers: Record<string, string> = {};
  let asked = 0;
  const server = createServer((_, response) => {
    asked += 1;
    response.writeHead(200, headers).end(readFileSync(file));
  }).listen(0, "127.0.0.1");
  await eventually(() => expect(server.listening).toBe(true));
  const from = `http://127.0.0.1:${(server.address() as AddressInfo).port}/dump.rdb`;
  for (const [name, values] of [
    ["etag", ['"1"', '"2"']],
    ["last-modified", ["Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:01 GMT"]],
    ["x-nothing", ["1", "2"]],
  ] as const) {
    await using target = await startRedis();
    for (const value of values) {
      await source.command("SET", "k", value);
      await source.command("SAVE");
      headers[name] = value;
      await import_(from, target.url);
      expect(await target.command("GET", "k")).toBe(value);
    }
    delete headers[name];
  }
  expect(asked).toBeGreaterThanOrEqual(6);
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});
