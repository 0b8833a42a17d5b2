import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { createPortal } from "../src/index.ts";

const { server, redis } = await redisForFile();

test("the first start creates an admin with a random password, later starts do not", async () => {
  await using first = createPortal(redis, { prefix: "random" });
  const { firstAdmin } = await first.start();
  expect(firstAdmin).toEqual({
    username: "admin",
    password: expect.stringMatching(/^[\w-]{20}$/),
  });
  await using second = createPortal(redis, { prefix: "random" });
  expect((await second.start()).firstAdmin).toBeUndefined();
});

test("of two portals that start together only one creates the admin", async () => {
  const portals = [1, 2, 3].map(() => createPortal(redis, { prefix: "race" }));
  const starts = await Promise.all(portals.map((portal) => portal.start()));
  expect(starts.filter(({ firstAdmin }) => firstAdmin !== undefined)).toHaveLength(1);
  await Promise.all(portals.map((portal) => portal.close()));
});

test("a given password is used, kept only as a hash, and not returned", async () => {
  const adminPassword = "correct horse battery";
  await using portal = createPortal(redis, { prefix: "given", adminPassword });
  expect((await portal.start()).firstAdmin).toEqual({ username: "admin", password: undefined });
  const stored = await server.command("GET", "given:store:/tasks/user/admin");
  expect(JSON.stringify(stored)).toContain("$argon2id$");
  expect(JSON.stringify(stored)).not.toContain(adminPassword);
});

test("a password that is too short is refused without repeating it", () => {
  expect(() => createPortal(redis, { adminPassword: "tiny" })).toThrow(
    'option adminPassword is "***", but must be a string of 8 to 128 characters',
  );
});
