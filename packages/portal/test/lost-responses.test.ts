/** Accounts, roles and tokens that are created while responses of the store are lost. */
import { openRedisStore, type Store, StoreUnavailableError } from "@ropeway/cluster";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { ensureFirstAdmin } from "../src/access/first-admin.ts";
import { Roles } from "../src/access/roles.ts";
import { AccessStore } from "../src/access/store.ts";
import { Tokens } from "../src/access/tokens.ts";
import { Users } from "../src/access/users.ts";
import { PortalKeys } from "../src/keys.ts";

const { redis } = await redisForFile();

/** The store; the response to the next transaction is lost. With `made: false`, the request is. */
function losing(store: Store, { made = true } = {}): Store {
  let left = 1;
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (name !== "txn" || left === 0) return value.bind(target);
      return async (...given: Parameters<Store["txn"]>) => {
        left = 0;
        if (made) await target.txn(...given);
        throw new StoreUnavailableError(target.where, true, new Error("its response was lost"));
      };
    },
  });
}

test.each([true, false])(
  "the first admin has a password that is shown (made: %s)",
  async (made) => {
    const prefix = `first-${made}`;
    await using real = openRedisStore(redis, { prefix: `${prefix}:store` });
    const store = new AccessStore(redis, new PortalKeys(prefix), losing(real, { made }));
    const hasher = { hash: async (password: string) => `hash of ${password}` } as never;
    const plan = { store, hasher, username: "admin", password: undefined };
    const first = await ensureFirstAdmin(plan);
    expect(first?.password).toMatch(/^[\w-]{20}$/);
    expect(await new Users(real).get("admin")).toMatchObject({
      passwordHash: `hash of ${first?.password}`,
    });
    expect(await ensureFirstAdmin(plan)).toBeUndefined();
  },
);

test.each([true, false])("accounts, roles and tokens are created once (made: %s)", async (made) => {
  await using real = openRedisStore(redis, { prefix: `others-${made}:store` });
  const lossy = () => losing(real, { made });
  const user = { username: "ann", role: "viewer", passwordHash: "a hash" };
  await expect(new Users(lossy()).create(user)).resolves.toMatchObject({ username: "ann" });
  const role = { name: "r", permissions: ["task:view"], groups: null };
  await expect(new Roles(lossy()).create(role)).resolves.toEqual(role);
  const account = (await new Users(real).get("ann")) ?? { username: "", id: 0 };
  const limits = { name: "t", permissions: null, groups: null, expiresAt: null };
  const { token } = await new Tokens(lossy()).create({ account, ...limits });
  const tokens = new Tokens(real);
  expect(await tokens.check(token, (name) => new Users(real).get(name))).toBeDefined();
  expect(await tokens.list("ann")).toHaveLength(1);
  const exists = { code: "ALREADY_EXISTS" };
  const other = { ...user, passwordHash: "another hash" };
  await expect(new Users(lossy()).create(other)).rejects.toMatchObject(exists);
  await expect(new Roles(real).create(role)).rejects.toMatchObject(exists);
});
