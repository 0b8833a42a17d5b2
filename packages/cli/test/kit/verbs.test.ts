import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Chat } from "@ropeway/kit/chat";
import { Lock } from "@ropeway/kit/lock";
import { Mailbox } from "@ropeway/kit/mailbox";
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
  expect(await json("semaphore", "show", "printers")).toEqual({
    ...{ name: "printers", held: 1, limit: null, waiting: 0 },
  });
  expect((await ropeway(["semaphore", "show", "printers"])).stdout).toMatch(
    /^limit +the limit of/m,
  );
  expect(await ropeway(["semaphore", "show", "printer"])).toMatchObject({
    code: 4,
    stderr: expect.stringContaining('"printer" not found'),
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

test("messages that a program keeps stay, whatever command changes their room", async () => {
  const kept = new Chat<string>(redis, { keepRead: true, maxAgeMs: null });
  const room = await kept.create({ sender: "joe", recipients: ["ann"], message: "1", id: "kept" });
  await room.send("joe", "2");
  for (const user of ["joe", "ann"]) await room.acknowledge(user, 2);
  await json("chat", "join", "kept", "eve");
  await json("chat", "acknowledge", "kept", "eve", "2");
  await json("chat", "leave", "kept", "eve");
  await json("chat", "send", "kept", "joe", "3");
  expect((await room.inspect()).messages).toBe(3);
  expect(await server.command("PTTL", "msgs:kept")).toBe(-1);
});

test("rooms are shown and joined, and messages are acknowledged", async () => {
  await json("chat", "create", "joe", "ann", "hello", "--id", "club");
  expect(await json("chat", "show", "club")).toEqual({
    ...{ id: "club", members: 2, messages: 1, newest: 1, present: [], typing: [] },
  });
  expect(await json("chat", "join", "club", "eve", "--history")).toEqual({
    ...{ outcome: "joined", room: "club", user: "eve" },
  });
  expect((await json("chat", "unread", "eve")).items).toEqual([{ room: "club", unread: 1 }]);
  expect(await json("chat", "acknowledge", "club", "eve", "1")).toMatchObject({ id: 1 });
  expect((await json("chat", "members", "club")).items).toContainEqual({ user: "eve", cursor: 1 });
  expect(await json("chat", "leave", "club", "eve")).toMatchObject({ outcome: "left" });
  expect((await ropeway(["chat", "leave", "club", "eve"])).code).toBe(4);
  expect((await ropeway(["chat", "unread", "eve"])).stderr).toContain("ropeway chat join");
  expect((await ropeway(["chat", "acknowledge", "club", "ann", "x"])).code).toBe(2);
  for (const verb of [["show"], ["members"], ["join", "x"], ["leave", "x"]] as const) {
    const [name, ...rest] = verb;
    expect(await ropeway(["chat", name, "nowhere", ...rest])).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('room "nowhere" not found'),
    });
  }
});

test.each(["lock list", "semaphore list", "mailbox letters anna", "chat rooms", "files list"])(
  "%s says which flag has a wrong cursor",
  async (command) => {
    const { code, stderr } = await ropeway([...command.split(" "), "--cursor", "x"]);
    expect(code).toBe(2);
    expect(stderr).toContain('--cursor is "x"');
  },
);

test("mailboxes are counted, peeked at, sent to, received from and cleared", async () => {
  expect((await ropeway(["mailbox", "peek", "anna"])).stderr).toContain("ropeway mailbox send");
  const sent = await json("mailbox", "send", "anna", '{"n":1}', "--sender", "joe", "--ttl", "1d");
  expect(sent).toMatchObject({ outcome: "sent", recipient: "anna" });
  await json("mailbox", "send", "anna", "\u001b[2Jtwo");
  expect(await json("mailbox", "show", "anna")).toEqual({
    ...{ recipient: "anna", waiting: 2, taken: 0, dead: 0 },
  });
  const page = await json("mailbox", "peek", "anna", "--limit", "1");
  expect(page.items).toMatchObject([{ sender: "joe", message: { n: 1 } }]);
  expect((await json("mailbox", "peek", "anna", "--cursor", page.cursor)).items).toHaveLength(1);
  expect((await ropeway(["mailbox", "peek", "anna"])).stdout).toContain("\\u001b[2Jtwo");
  expect((await json("mailbox", "receive", "anna")).items).toMatchObject([
    { id: sent.id, attempt: 1, sender: "joe", message: { n: 1 } },
  ]);
  expect(await json("mailbox", "show", "anna")).toMatchObject({ waiting: 1, taken: 0 });
  expect((await ropeway(["mailbox", "receive", "anna", "--max", "0"])).stderr).toContain("--max");
  const box = new Mailbox(redis, "anna", { attempts: 1 });
  const [delivery] = await box.receive();
  await delivery?.release();
  expect((await json("mailbox", "letters", "anna")).items).toMatchObject([
    { message: "\u001b[2Jtwo" },
  ]);
  await redis.send(["RPUSH", "mailbox:anna", "\u001b[2Jno json"]);
  expect(await box.receive()).toEqual([]);
  expect((await json("mailbox", "letters", "anna")).items[0].raw).toBe("\u001b[2Jno json");
  expect((await ropeway(["mailbox", "letters", "anna"])).stdout).toContain("\\u001b[2Jno json");
  expect((await ropeway(["mailbox", "clear", "anna"])).code).toBe(2);
  expect(await json("mailbox", "clear", "anna", "--yes")).toMatchObject({ outcome: "cleared" });
  expect((await ropeway(["mailbox", "letters", "anna"])).stderr).toContain("no dead letters");
  expect((await ropeway(["mailbox", "show", "anna"])).stderr).toContain("--key-prefix");
});

test("members and contacts are added, searched, ranked and removed", async () => {
  const names = async (...args: string[]) =>
    (await json("autocomplete", ...args)).items.map(({ name }: { name: string }) => name);
  const how = ["--fold", "case", "--ranked"];
  const added = { outcome: "added", group: "guild", member: "Joe" };
  expect(await json("autocomplete", "add-member", "guild", "Joe", ...how)).toEqual(added);
  expect(await json("autocomplete", "add-member", "guild", "Joe", ...how)).toMatchObject({
    outcome: "unchanged",
  });
  await json("autocomplete", "use-member", "guild", "Jona", ...how);
  expect(await names("members", "guild", "jo", ...how)).toEqual(["Jona", "Joe"]);
  expect(await json("autocomplete", "count", "guild")).toEqual({ group: "guild", members: 2 });
  expect(await json("autocomplete", "reindex", "guild", ...how)).toMatchObject({ members: 2 });
  await json("autocomplete", "remove-member", "guild", "Joe", ...how);
  expect(await names("members", "guild", ...how)).toEqual(["Jona"]);
  expect((await ropeway(["autocomplete", "remove-member", "guild", "Joe", ...how])).code).toBe(4);
  expect((await ropeway(["autocomplete", "members", "none"])).stderr).toContain("add-member none");
  const bad = await ropeway(["autocomplete", "reindex", "guild", "--top-length", "1"]);
  expect(bad).toMatchObject({ code: 2, stderr: expect.stringContaining("--top-length is 1") });

  await json("autocomplete", "add-contact", "anna", "Joe");
  await json("autocomplete", "add-contact", "anna", "Bob");
  expect(await names("contacts", "anna")).toEqual(["Bob", "Joe"]);
  expect(await names("contacts", "anna", "jo")).toEqual(["Joe"]);
  await json("autocomplete", "remove-contact", "anna", "Joe");
  expect((await ropeway(["autocomplete", "remove-contact", "anna", "Joe"])).code).toBe(4);
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
  const waiting = json("files", "receive", "later:", "0", target);
  await json("files", "send", "later:", join(folder, "a.log"), "--receivers", "0");
  expect(await json("files", "end", "later:")).toEqual({ outcome: "ended", channel: "later:" });
  expect(await waiting).toEqual({ files: 1, missed: [] });
  expect((await ropeway(["files", "end", "later:"])).code).toBe(4);
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
