import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Lock } from "@ropeway/kit/lock";
import { Semaphore } from "@ropeway/kit/semaphore";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, expect, test } from "vitest";
import { speak } from "../spoken.ts";

const { server, redis } = await redisForFile();
const folder = await mkdtemp(join(tmpdir(), "ropeway-cli-kit-"));
afterAll(() => rm(folder, { recursive: true, force: true }));

const ropeway = (args: readonly string[], signal?: AbortSignal) =>
  speak(args, { env: { REDIS_URL: server.url }, ...(signal && { signal }) });
// biome-ignore lint/suspicious/noExplicitAny: results are looked at, not typed
const json = async (...args: string[]): Promise<any> => {
  const { code, stdout, stderr } = await ropeway([...args, "--json"]);
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
};

test("locks are listed, shown and broken", async () => {
  const held = await new Lock(redis, "market", { owner: "shop:1" }).acquire();
  expect(await json("lock", "list")).toMatchObject({
    items: [{ name: "market", owner: "shop:1" }],
    cursor: null,
  });
  expect(await json("lock", "show", "market")).toMatchObject({
    token: held.token,
    fence: held.fence,
  });
  expect((await ropeway(["lock", "list"])).stdout).toContain("market\twrite\tshop:1");
  expect((await ropeway(["lock", "break", "market", "--token", "other"])).code).toBe(4);
  expect(await json("lock", "break", "market")).toEqual({ outcome: "broken", name: "market" });
  expect(await ropeway(["lock", "show", "market"])).toMatchObject({ code: 4 });
  expect(await held.release()).toBe(false);
});

test("semaphores in use are listed, and an empty list says what to do", async () => {
  const empty = await ropeway(["semaphore", "list"]);
  expect(`${empty.stdout}${empty.stderr}`).toContain("--key-prefix");
  const permit = await new Semaphore(redis, "printers", { limit: 3 }).acquire();
  expect(await json("semaphore", "list")).toMatchObject({
    items: [{ name: "printers", held: 1, waiting: 0 }],
    cursor: null,
  });
  expect(await json("semaphore", "resize", "printers", "5")).toEqual({
    outcome: "resized",
    name: "printers",
    limit: 5,
  });
  expect((await json("semaphore", "list")).items).toMatchObject([{ name: "printers", limit: 5 }]);
  expect((await ropeway(["semaphore", "resize", "printers", "none"])).code).toBe(0);
  expect((await json("semaphore", "list")).items[0].limit).toBeUndefined();
  expect(await ropeway(["semaphore", "resize", "printers", "0"])).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('limit is "0"'),
  });
  await permit.release();
});

test("rooms are created, written to, read and watched", async () => {
  expect(await json("chat", "create", "joe", "ann,bob", "hello", "--id", "lobby")).toEqual({
    outcome: "created",
    room: "lobby",
  });
  expect(await json("chat", "send", "lobby", "joe", '{"n":1}')).toEqual({
    outcome: "sent",
    room: "lobby",
    id: 2,
  });
  expect(await json("chat", "rooms")).toMatchObject({
    items: [{ id: "lobby", members: 3, messages: 2 }],
  });
  expect(
    (await json("chat", "read", "lobby")).items.map(({ message }: { message: unknown }) => message),
  ).toEqual([{ n: 1 }, "hello"]);
  expect((await ropeway(["chat", "read", "lobby"])).stdout).toContain("joe\thello");
  const stop = new AbortController();
  const watching = ropeway(["chat", "watch", "ann", "--acknowledge"], stop.signal);
  await eventually(async () =>
    expect(await server.command("ZSCORE", "seen:ann", "lobby")).toBe("2"),
  );
  stop.abort("SIGINT");
  expect((await watching).stdout).toBe('lobby joe: hello\nlobby joe: {"n":1}\n');
  expect(await ropeway(["chat", "read", "nowhere"])).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('room "nowhere" not found'),
  });
  expect(await ropeway(["chat", "send", "nowhere", "joe", "x"])).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('room "nowhere" not found'),
  });
});

test("files are sent and received", async () => {
  await writeFile(join(folder, "a.log"), "one\ntwo\n");
  const target = join(folder, "target");
  const receiving = json("files", "receive", "logs:", "0", target);
  const sending = json(
    "files",
    "send",
    "logs:",
    join(folder, "a.log"),
    "--receivers",
    "0",
    "--end",
  );
  expect(await sending).toMatchObject({ items: [{ name: "a.log", bytes: 8, dropped: 0 }] });
  expect(await receiving).toEqual({ files: 1, missed: [] });
  expect(await readFile(join(target, "a.log"), "utf8")).toBe("one\ntwo\n");
  expect(await json("files", "list")).toEqual({ items: [], cursor: null });
  const missing = await ropeway(["files", "send", "logs:", "missing", "--receivers", "0"]);
  expect(missing).toMatchObject({ code: 2, stderr: expect.stringContaining("file not found") });
  expect(
    (await ropeway(["files", "send", "logs:", join(folder, "a.log"), "--receivers", ","])).stderr,
  ).toContain("--receivers");
});

test("files show a progress bar on a terminal while they are sent and received, and remove it", async () => {
  await writeFile(join(folder, "b.log"), "x".repeat(300_000));
  const world = { env: { REDIS_URL: server.url }, terminal: true };
  const receiving = speak(["files", "receive", "bars:", "0", join(folder, "bars")], world);
  const sent = await speak(
    ["files", "send", "bars:", join(folder, "b.log"), "--receivers", "0", "--end"],
    world,
  );
  expect(sent.stderr).toContain("b.log [#################---]  87 %  262 kB of 300 kB");
  expect(sent.stderr).toContain("waiting for the receivers  300 kB  b.log");
  expect(sent.stderr).toContain("\r\u001b[Kb.log: 300 kB sent");
  const { stderr } = await receiving;
  expect(stderr).toContain("b.log [####################] 100 %  300 kB of 300 kB");
  expect(stderr).toContain("\r\u001b[Kb.log received");
});
