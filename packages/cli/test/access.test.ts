// Roles, tokens and tasks as an operator handles them, directly in the store.
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test, vi } from "vitest";
import { speak } from "./spoken.ts";

const { server } = await redisForFile();

beforeEach(() => server.command("FLUSHALL"));

const ropeway = (...args: string[]) => speak(args, { env: { REDIS_URL: server.url } });
// biome-ignore lint/suspicious/noExplicitAny: answers are looked at, not typed
const json = async (...args: string[]): Promise<any> => {
  const { code, stdout, stderr } = await ropeway(...args, "--json");
  if (code !== 0) throw new Error(stderr);
  return JSON.parse(stdout);
};

test.each(["bogus:thing", "task:bogus", "bogus:*", "*:bogus", "task", "task:operate,bogus:thing"])(
  "a role or token with the permission %s is refused, with those that exist",
  async (permissions) => {
    const role = await ropeway("role", "add", "odd", "--permissions", permissions);
    expect(role.code).toBe(2);
    expect(role.stderr).toMatch(
      /^ropeway: permissions is ".*", but must be one of .*task:operate, /,
    );
    await ropeway("user", "add", "ann", "--generate");
    const token = await ropeway("token", "add", "t", "--user", "ann", "--permissions", permissions);
    expect(token.code).toBe(2);
    expect(
      (await json("role", "list")).items.filter(({ builtIn }: { builtIn: boolean }) => !builtIn),
    ).toEqual([]);
    expect((await json("token", "list")).items).toEqual([]);
  },
);

test("stars and known permissions are taken", async () => {
  const all = "task:operate,node:*,*:view,*:*";
  expect(await json("role", "add", "some", "--permissions", all)).toMatchObject({
    permissions: all.split(","),
  });
  const [viewer] = (await json("role", "list")).items;
  expect(viewer).toMatchObject({
    name: "viewer",
    permissions: expect.arrayContaining(["task:view"]),
  });
});

test("an empty list of groups is refused: it would not say whether it means all groups or none", async () => {
  await ropeway("user", "add", "ann", "--generate");
  for (const groups of ["", " ", ",", " , "]) {
    for (const what of [
      ["role", "add", "some", "--permissions", "task:view"],
      ["token", "add", "t", "--user", "ann"],
    ]) {
      const { code, stderr } = await ropeway(...what, "--groups", groups);
      expect([code, stderr]).toEqual([2, expect.stringContaining("--groups must be names")]);
    }
  }
  const limited = ["--permissions", "task:view", "--groups", "shop, billing"];
  expect(await json("role", "add", "some", ...limited)).toMatchObject({
    groups: ["shop", "billing"],
  });
  expect(await json("role", "add", "wide", "--permissions", "task:view")).toMatchObject({
    groups: null,
  });
});

test("a token expires after a duration, or never", async () => {
  await ropeway("user", "add", "ann", "--generate");
  const add = (...more: string[]) => ropeway("token", "add", "t", "--user", "ann", ...more);
  const before = Date.now();
  expect((await add("--expires-in", "12h")).code).toBe(0);
  const [{ expiresAt }] = (await json("token", "list")).items;
  expect(Date.parse(expiresAt) - before).toBeGreaterThanOrEqual(12 * 3_600_000);
  expect(Date.parse(expiresAt) - Date.now()).toBeLessThanOrEqual(12 * 3_600_000);
  for (const wrong of [
    ["--expires-in", "soon"],
    ["--expires-in", "0s"],
    ["--expires-in", "4000d"],
    ["--expires-in-days", "0"],
    ["--expires-in-days", "many"],
    ["--expires-in-days", "1", "--expires-in", "1d"],
  ]) {
    expect((await add(...wrong)).code, wrong.join(" ")).toBe(2);
  }
});

test("a task is changed while it is at rest", async () => {
  const { id } = await json("task", "create", "--name", "one", "--type", "scripted");
  expect(
    await json("task", "edit", id, "--name", "two", "--group", "g", "--immortal"),
  ).toMatchObject({
    id,
    name: "two",
    group: "g",
    immortal: true,
  });
  expect(await json("task", "edit", id, "--no-immortal", "--options", '{"runMs":3}')).toMatchObject(
    {
      name: "two",
      immortal: false,
      config: { runMs: 3 },
    },
  );
  expect(await ropeway("task", "edit", id)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining("pass what to change"),
  });
  expect((await ropeway("task", "edit", "task_0", "--name", "x")).code).toBe(4);
  await json("task", "create", "--name", "other", "--type", "scripted");
  expect((await ropeway("task", "edit", id, "--name", "other")).code).toBe(1);
  const audit = (await json("audit", "list")).items.map(({ action }: { action: string }) => action);
  expect(audit.filter((action: string) => action.startsWith("task edit"))).toHaveLength(3);
});

test("a sync task's addresses are changed together", async () => {
  const ends = ["--from", "redis://127.0.0.1:1", "--to", "redis://127.0.0.1:2"];
  const { id } = await json("task", "create", "--name", "s", ...ends);
  expect(await ropeway("task", "edit", id, "--from", "redis://127.0.0.1:3")).toMatchObject({
    code: 2,
    stderr: "ropeway: --to is missing: a sync task needs --from and --to\n",
  });
  const other = ["--from", "redis://127.0.0.1:3", "--to", "redis://127.0.0.1:2"];
  expect(await json("task", "edit", id, ...other)).toMatchObject({
    config: { from: "redis://127.0.0.1:3" },
  });
});

test("the audit log says which role an account was given", async () => {
  await ropeway("user", "add", "ann", "--role", "operator", "--generate");
  await ropeway("user", "role", "ann", "admin");
  const audit = (await json("audit", "list")).items.map(({ action }: { action: string }) => action);
  expect(audit).toEqual(expect.arrayContaining(["user add ann operator", "user role ann admin"]));
  const task = await json("task", "create", "--name", "one", "--type", "scripted");
  const token = await json("token", "add", "ci", "--user", "ann");
  await ropeway("token", "revoke", token.id);
  await ropeway("token", "revoke", "none");
  const { items } = await json("audit", "list");
  expect(items.map(({ subject }: { subject: string }) => subject)).toEqual([
    "token none",
    `token ${token.id} user ann`,
    `token ${token.id} user ann`,
    `task ${task.id}`,
    "user ann role admin",
    "user ann role operator",
  ]);
  expect((await ropeway("audit", "list", "--limit", "2")).stdout).toMatch(
    new RegExp(`\\ttoken ${token.id} user ann\\n`),
  );
});

test("what was created can be removed while Redis is out of memory, and the audit log has it", async () => {
  const { id } = await json("task", "create", "--name", "old", "--type", "scripted");
  await json("user", "add", "ann", "--generate");
  await server.command("CONFIG", "SET", "maxmemory", "1");
  try {
    await json("task", "remove", id);
    await json("user", "remove", "ann");
  } finally {
    await server.command("CONFIG", "SET", "maxmemory", "0");
  }
  const { items } = await json("audit", "list", "--limit", "2");
  expect(items).toMatchObject([
    { action: "user remove ann", outcome: "done" },
    { action: `task remove ${id}`, outcome: "done" },
  ]);
});

test("tokens and audit entries follow the clock of Redis, also if that of the machine is wrong", async () => {
  await json("user", "add", "ann", "--generate");
  await json("token", "add", "short", "--user", "ann", "--expires-in", "30m");
  const began = Date.now();
  const clock = vi.spyOn(Date, "now").mockImplementation(() => began + 3_600_000);
  try {
    await json("token", "add", "other", "--user", "ann", "--expires-in", "30m");
  } finally {
    clock.mockRestore();
  }
  const { items } = await json("token", "list");
  expect(items.map(({ name }: { name: string }) => name).sort()).toEqual(["other", "short"]);
  for (const { expiresAt } of items) expect(Date.parse(expiresAt) - began).toBeLessThan(3_500_000);
  const [newest] = (await json("audit", "list")).items;
  expect(Date.parse(newest.at) - began).toBeLessThan(1_800_000);
});
