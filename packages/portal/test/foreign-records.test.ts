/** Records of accounts, roles, tokens and changes that another program wrote, or left half: no list fails because of one. */
import { createHash } from "node:crypto";
import { Cluster, openRedisStore, type Store } from "@ropeway/cluster";
import { afterAll, beforeAll, expect, test } from "vitest";
import { nodesPart, tasksPart } from "../src/index.ts";
import { Stage } from "./stage.fixture.ts";

let stage: Stage;
let store: Store;
let admin: { authorization: string };

beforeAll(async () => {
  stage = await Stage.open({
    partsOf(redis) {
      const cluster = new Cluster(openRedisStore(redis));
      return [tasksPart(cluster), nodesPart(cluster)];
    },
  });
  store = openRedisStore(stage.redis);
  admin = await stage.bearer();
});
afterAll(async () => {
  await store.close();
  await stage.close();
});

/** Later than any time with a year of four digits. */
const FAR = 8_000_000_000_000_000;
const EPOCH = new Date(0).toISOString();

const plant = (path: string, record: object) => store.put(path, JSON.stringify(record));

async function items(path: string): Promise<Record<string, unknown>[]> {
  const response = await stage.ask(path, { headers: admin });
  expect({ path, status: response.status }).toEqual({ path, status: 200 });
  return ((await response.json()) as { items: Record<string, unknown>[] }).items;
}

test("accounts", async () => {
  await plant("/tasks/user/half", { password: "$argon2id$", role: "viewer" });
  await plant("/tasks/user/far", { username: "far", password: "x", createdAt: FAR, role: 1 });
  await plant("/tasks/user/other", { username: "another", password: "x", role: "admin" });
  await plant("/tasks/user/none", { username: "none", role: "admin" });
  const times = { createdAt: EPOCH, passwordAt: EPOCH };
  const users = await items("/api/users");
  expect(users.map(({ username }) => username)).toEqual(["admin", "far", "half"]);
  expect(users.slice(1)).toEqual([
    { username: "far", role: "", ...times },
    { username: "half", role: "viewer", ...times },
  ]);
  // Neither of the two that are ignored counts as an admin.
  await expect(stage.users.remove("admin")).rejects.toMatchObject({ code: "PROTECTED" });
  const body = { role: "operator", password: "a new password" };
  const headers = admin;
  expect((await stage.ask("/api/users/half", { method: "PATCH", body, headers })).status).toBe(200);
  const login = await stage.login({ username: "half", password: body.password });
  expect(login.status).toBe(201);
});

test("roles", async () => {
  await plant("/tasks/role/half", { name: "half" });
  await plant("/tasks/role/odd", { name: "odd", permissions: ["task:view", 1], groups: ["g", 2] });
  await plant("/tasks/role/text", { permissions: "task:view", groups: "g" });
  await plant("/tasks/role/nogroup", { permissions: ["task:view"], groups: [1] });
  const roles = (await items("/api/roles")).filter(({ builtIn }) => builtIn === false);
  expect(roles).toEqual([
    { name: "half", permissions: [], groups: null, builtIn: false },
    { name: "odd", permissions: ["task:view"], groups: ["g"], builtIn: false },
  ]);
  await plant("/tasks/role/team", { permissions: ["task:view"] });
  await stage.addAccount("ann", "team");
  await plant("/tasks/role/team", { permissions: ["task:view"], groups: [1] });
  const headers = await stage.bearer("ann");
  expect((await stage.ask("/api/tasks", { headers })).status).toBe(403);
});

test("API tokens, whose missing limits are not taken as none", async () => {
  const id = "0123456789abcdef";
  const secret = "a".repeat(43);
  const headers = { authorization: `Bearer rwt_${id}_${secret}` };
  const hash = createHash("sha256").update(secret).digest("hex");
  const { id: accountId } = (await stage.users.get("admin")) ?? {};
  const whole = {
    ...{ id, name: "n", username: "admin", permissions: null, groups: null },
    ...{ createdAt: 1, expiresAt: null, hash, accountId },
  };
  const statusWith = async (record: object) => {
    await plant(`/tasks/token/${id}`, record);
    await items("/api/tokens");
    return (await stage.ask("/api/users", { headers })).status;
  };
  expect(await statusWith(whole)).toBe(200);
  expect(await statusWith({ ...whole, hash: "short" })).toBe(401);
  expect(await statusWith({ ...whole, hash: 1 })).toBe(401);
  expect(await statusWith({ ...whole, expiresAt: undefined })).toBe(401);
  expect(await statusWith({ ...whole, expiresAt: "never" })).toBe(401);
  expect(await statusWith({ ...whole, accountId: undefined })).toBe(401);
  expect(await statusWith({ ...whole, permissions: undefined })).toBe(403);
  expect(await statusWith({ ...whole, permissions: "user:view" })).toBe(403);
  expect(await statusWith({ ...whole, createdAt: FAR, lastUsedAt: "x" })).toBe(200);
  expect(await statusWith({ hash })).toBe(401);
});

test("the audit log", async () => {
  await plant("/tasks/audit/0000000000001_a", { actor: "ann", status: "200", outcome: "?" });
  await plant("/tasks/audit/0000000000002_a", { at: FAR });
  const [first, second] = await items("/api/audit");
  const texts = { via: "", from: "", action: "", path: "", subject: "", requestId: "" };
  const rest = { ...texts, at: EPOCH, outcome: "started", status: 0 };
  expect(first).toEqual({ id: "0000000000001_a", actor: "ann", ...rest });
  expect(second).toEqual({ id: "0000000000002_a", actor: "", ...rest });
});

test("tasks and nodes of a time that has no year of four digits", async () => {
  const task = { taskId: "t", groupId: "g", nodeId: "", taskName: "t", type: "scripted", md5: "m" };
  await plant("/tasks/taskid/t", { ...task, status: "STOP", createTime: FAR, updateTime: FAR });
  await plant("/nodes/redissyncer/n", { nodeid: "n", lastreporttime: FAR });
  expect(await items("/api/tasks")).toMatchObject([{ id: "t", createdAt: EPOCH }]);
  expect(await items("/api/nodes")).toMatchObject([{ id: "n", lastReportAt: null }]);
});
