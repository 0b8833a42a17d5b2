import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { eventually, startRedis } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import { connect, defineScript } from "../src/index.ts";

const take = defineScript(new URL("./fixture/take.lua", import.meta.url), {
  parse: (reply) => Number(reply),
});

const { server, redis } = await redisForFile();

beforeEach(() => server.command("FLUSHALL"));

test("a script is called by name, with keys, texts, numbers and bytes", async () => {
  expect(take.name).toBe("take");
  expect(await redis.run(take, ["stock"], [5])).toBe(5);
  expect(await redis.run(take, ["stock"], ["2"])).toBe(7);
  expect(await redis.run(take, ["stock"], [Buffer.from("1")])).toBe(8);
});

test("a binary script answers with the bytes as they are", async () => {
  const bytes = Buffer.from([0, 255, 10, 13, 128]);
  const give = defineScript(new URL("./fixture/give.lua", import.meta.url), { binary: true });
  await redis.send(["SET", "raw", bytes]);
  expect(await redis.run(give, ["raw"], [])).toEqual([bytes, 5]);
  await server.command("SCRIPT", "FLUSH");
  expect(await redis.run(give, ["raw"], [])).toEqual([bytes, 5]);
});

test("a first burst is loaded once, in one write, and keeps its order", async () => {
  await using fresh = await connect(server.url);
  await server.command("SCRIPT", "FLUSH");
  await server.command("CONFIG", "RESETSTAT");
  const replies = await Promise.all(
    Array.from({ length: 500 }, () => fresh.run(take, ["stock"], [1])),
  );
  expect(replies).toEqual(Array.from({ length: 500 }, (_, i) => i + 1));
  const stats = String(await server.command("INFO", "commandstats"));
  expect(stats).toMatch(/cmdstat_script(\|load)?:calls=1,/);
  expect(stats).toMatch(/cmdstat_evalsha:calls=500,.*failed_calls=0/);
});

test("a script the server forgot is sent again, and every call has its effect once", async () => {
  await redis.run(take, ["stock"], [1]);
  await server.command("SCRIPT", "FLUSH");
  const replies = await Promise.all(
    Array.from({ length: 50 }, () => redis.run(take, ["stock"], [1])),
  );
  expect(replies.sort((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, i) => i + 2));
});

test("an error inside a script is typed and names the script", async () => {
  await expect(redis.run(take, ["stock"], ["many"])).rejects.toMatchObject({
    code: "SERVER_REPLY",
    message: expect.stringContaining("take failed"),
  });
});

test("an idempotent script is repeated over a loss; another one is not", async () => {
  await using durable = await startRedis({ appendonly: true });
  await using other = await connect(durable.url);
  const repeatable = { ...take, idempotent: true };
  await other.run(take, ["stock"], [1]);
  durable.pause();
  const once = expect(other.run(take, ["stock"], [1])).rejects.toMatchObject({
    code: "CONNECTION_LOST",
  });
  const again = other.run(repeatable, ["stock"], [1]);
  await durable.kill9();
  await durable.start();
  await once;
  expect(await again).toBeGreaterThan(1);
});

test("a script that met a server which had become a replica runs when it is a master again", async () => {
  await using fickle = await startRedis();
  await using other = await connect(fickle.url, { offlineWaitMs: 20_000 });
  expect(await other.run(take, ["stock"], [1])).toBe(1);
  await fickle.command("REPLICAOF", "127.0.0.1", "1");
  let losses = 0;
  other.onLost(() => {
    losses += 1;
  });
  const taken = other.run(take, ["stock"], [1]);
  await Promise.race([taken, eventually(() => expect(losses).toBeGreaterThan(0))]);
  await fickle.command("REPLICAOF", "NO", "ONE");
  expect(await taken).toBe(2);
});

test("an error inside a script keeps its word on every version of the server", async () => {
  await redis.send(["LPUSH", "list", "x"]);
  await expect(redis.run(take, ["list"], [1])).rejects.toMatchObject({ prefix: "WRONGTYPE" });
});

test("a prelude stands in front of the script", () => {
  const folder = mkdtempSync(join(tmpdir(), "prelude-"));
  const [part, body] = ["part.lua", "body.lua"].map((name) => pathToFileURL(join(folder, name)));
  writeFileSync(part as URL, "local one = 1");
  writeFileSync(body as URL, "return one");
  const script = defineScript(body as URL, { prelude: [part as URL] });
  expect(script.source).toBe("local one = 1\nreturn one");
  expect(script.name).toBe("body");
  rmSync(folder, { recursive: true });
});

test("a script that could not be loaded is loaded before its next call", async () => {
  await server.command("ACL", "SETUSER", "runner", "reset", "on", ">pw", "~*", "+@all", "-script");
  await using runner = await connect(server.url.replace("//", "//runner:pw@"));
  await runner.run(take, ["stock"], [1]); // by its source
  await server.command("ACL", "SETUSER", "runner", "+script");
  await server.command("CONFIG", "RESETSTAT");
  await runner.run(take, ["stock"], [1]);
  const stats = String(await server.command("INFO", "commandstats"));
  expect(stats).toMatch(/cmdstat_script\|load:calls=1/);
});
