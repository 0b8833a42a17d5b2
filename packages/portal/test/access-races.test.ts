/** Changes of accounts and roles whose conditions change while they are under way. */
import { connect as connectTo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { openRedisStore, type Store } from "@ropeway/cluster";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AuditLog } from "../src/access/audit-log.ts";
import { Roles } from "../src/access/roles.ts";
import { Users } from "../src/access/users.ts";
import { Stage } from "./stage.fixture.ts";

const { redis } = await redisForFile();
let stage: Stage;
let admin: { authorization: string };

beforeAll(async () => {
  stage = await Stage.open();
  admin = await stage.bearer();
});
afterAll(() => stage.close());

/** The store; `meanwhile` runs once, before the first transaction. */
function interrupted(store: Store, meanwhile: () => Promise<unknown>): Store {
  let left = 1;
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (name !== "txn") return value.bind(target);
      return async (...given: Parameters<Store["txn"]>) => {
        if (left-- === 1) await meanwhile();
        return target.txn(...given);
      };
    },
  });
}

/** Starts a request and sends its body when `finish` is called; that returns the status. */
async function slowRequest(route: string, headers: { authorization: string }, body: object) {
  const text = JSON.stringify(body);
  const { hostname, port, host } = new URL(stage.url);
  const socket = connectTo(Number(port), hostname);
  const answer = new Promise<string>((resolve, reject) => {
    socket.once("data", (data) => resolve(String(data)));
    socket.once("error", reject);
  });
  socket.write(
    `${route} HTTP/1.1\r\nhost: ${host}\r\nauthorization: ${headers.authorization}\r\n` +
      `content-type: application/json\r\ncontent-length: ${text.length}\r\n\r\n${text[0]}`,
  );
  return async () => {
    socket.write(text.slice(1));
    const status = Number((await answer).split(" ")[1]);
    socket.destroy();
    return status;
  };
}

test.each(["removed", "demoted"])(
  "a request whose body arrives after its sender was %s is refused",
  async (how) => {
    const name = `mallory-${how}`;
    await stage.addAccount(name, "admin");
    // A viewer has all that this role has: only the permission of the route is missing.
    const backdoor = { name: `backdoor-${how}`, permissions: ["task:view"] };
    const finish = await slowRequest("POST /api/roles", await stage.bearer(name), backdoor);
    const log = new AuditLog(openRedisStore(stage.redis));
    await eventually(async () => {
      const { items } = await log.list({ actor: name });
      expect(items.map(({ action }) => action)).toContain("POST /api/roles");
    });
    if (how === "removed") await stage.users.remove(name);
    else await stage.users.setRole(name, "viewer");
    await sleep(1_100); // it counts as late after a second
    expect(await finish()).toBe(how === "removed" ? 401 : 403);
    expect(await new Roles(openRedisStore(stage.redis)).get(backdoor.name)).toBeUndefined();
  },
);

test("a body that arrives late is served if its sender may still send it", async () => {
  const wish = { name: "late", permissions: ["user:view"] };
  const finish = await slowRequest("POST /api/roles", admin, wish);
  await sleep(1_100);
  expect(await finish()).toBe(201);
});

test("an account that was promoted meanwhile is not changed by those who may not change it", async () => {
  await using real = openRedisStore(redis, { prefix: "promoted:store" });
  const users = new Users(real);
  await users.create({ username: "root", role: "admin", passwordHash: "a hash" });
  const mayChange = async (role: string) => {
    if (role === "admin") throw new Error("beyond the caller's rights");
  };
  for (const [n, change] of [
    (meanwhile: Users, name: string) => meanwhile.setRole(name, "operator", mayChange),
    (meanwhile: Users, name: string) => meanwhile.remove(name, mayChange),
    async (meanwhile: Users, name: string) => {
      const account = await users.get(name);
      if (account === undefined) throw new Error("no account");
      await users.setRole(name, "admin"); // while its new password is hashed
      await meanwhile.setPassword(account, "another hash", { ends: true, check: mayChange });
    },
  ].entries()) {
    const username = `ann${n}`;
    await users.create({ username, role: "viewer", passwordHash: "a hash" });
    const racing = new Users(interrupted(real, () => users.setRole(username, "admin")));
    await expect(change(racing, username)).rejects.toThrow("beyond");
    expect(await users.get(username)).toMatchObject({ role: "admin", passwordHash: "a hash" });
  }
});

test("a role that was replaced or removed meanwhile is not given unchecked", async () => {
  await using real = openRedisStore(redis, { prefix: "given:store" });
  const [users, roles] = [new Users(real), new Roles(real)];
  const small = { name: "team", permissions: ["task:view"], groups: null };
  const mayGive = async (name: string) => {
    const role = await roles.get(name);
    if (role?.permissions.includes("*:*")) throw new Error("beyond the caller's rights");
  };
  const user = (username: string, role: string) => ({ username, role, passwordHash: "a hash" });
  await users.create(user("ann", "viewer"));
  const gives = [
    (racing: Users) => racing.create(user("bob", "team"), mayGive),
    (racing: Users) => racing.setRole("ann", "team", mayGive),
  ];
  const remove = () => roles.remove("team");
  const replace = async () => {
    await remove();
    await roles.create({ ...small, permissions: ["*:*"] });
  };
  for (const give of gives) {
    await roles.create(small);
    await expect(give(new Users(interrupted(real, replace)))).rejects.toThrow("beyond");
    await remove();
    await roles.create(small);
    const removing = give(new Users(interrupted(real, remove)));
    await expect(removing).rejects.toMatchObject({ code: "UNKNOWN_ROLE" });
  }
  expect(await users.list()).toMatchObject([{ username: "ann", role: "viewer" }]);
});

test("a role that is given while it is removed is not removed", async () => {
  await using real = openRedisStore(redis, { prefix: "removed:store" });
  const [users, roles] = [new Users(real), new Roles(real)];
  await roles.create({ name: "team", permissions: ["task:view"], groups: null });
  const give = () => users.create({ username: "ann", role: "team", passwordHash: "a hash" });
  const removing = new Roles(interrupted(real, give)).remove("team");
  await expect(removing).rejects.toMatchObject({ code: "PROTECTED" });
  expect(await roles.get("team")).toMatchObject({ name: "team" });
});

test("a role and a password that are changed together are changed both, or neither", async () => {
  await using real = openRedisStore(redis, { prefix: "both:store" });
  const users = new Users(real);
  const account = async () => {
    const found = await users.get("ann");
    if (found === undefined) throw new Error("no account");
    return found;
  };
  await users.create({ username: "ann", role: "viewer", passwordHash: "a hash" });
  const edit = { role: "operator", passwordHash: "another hash" };
  const before = await account();
  const change = () => users.setPassword(before, "a newer hash", { ends: true });
  const racing = new Users(interrupted(real, change));
  await expect(racing.edit(before, edit)).rejects.toMatchObject({ code: "PASSWORD_CONFLICT" });
  const between = await account();
  expect(between).toMatchObject({ role: "viewer", passwordHash: "a newer hash" });
  await users.edit(between, edit);
  expect(await account()).toMatchObject({ ...edit, generation: between.generation + 1 });
  await users.edit(await account(), { role: "viewer" });
  const generation = between.generation + 1;
  expect(await account()).toMatchObject({ ...edit, role: "viewer", generation });
});
