import { hash } from "@node-rs/argon2";
import { expect, test } from "vitest";
import { PasswordHasher } from "../src/access/hasher.ts";

const hasher = new PasswordHasher();

test("a hash is argon2id, differs each time, and fits its own password only", async () => {
  const [one, two] = await Promise.all([hasher.hash("päss"), hasher.hash("päss")]);
  expect(one).toMatch(/^\$argon2id\$v=19\$m=65536,t=3,p=4\$/);
  expect(one).not.toBe(two);
  expect(await hasher.verify(one, "pa\u0308ss")).toBe(true);
  expect(await hasher.verify(one, "pass")).toBe(false);
});

test("a hash of another cost is outdated", async () => {
  expect(hasher.isOutdated(await hash("x", { memoryCost: 1024, timeCost: 1 }))).toBe(true);
  expect(hasher.isOutdated(await hasher.hash("x"))).toBe(false);
});

test("more logins than can wait are refused, and the others are all answered", async () => {
  const hashed = await hash("x", { memoryCost: 1024, timeCost: 1 });
  const tries = Array.from({ length: 100 }, () => hasher.verify(hashed, "x"));
  const outcomes = await Promise.allSettled(tries);
  const refused = outcomes.filter(({ status }) => status === "rejected");
  expect(refused).toHaveLength(66); // 2 run, 32 wait
  for (const { reason } of refused as PromiseRejectedResult[]) {
    expect(reason).toMatchObject({ code: "OVERLOADED" });
  }
  expect(await hasher.verify(hashed, "x")).toBe(true);
});

test("checking nobody's password is a check like any other, and always false", async () => {
  const cheap = new PasswordHasher({ memoryCost: 1_024, timeCost: 1, parallelism: 1 });
  for (const password of ["", "x", "nobody"])
    expect(await cheap.verifyNobody(password)).toBe(false);
});
