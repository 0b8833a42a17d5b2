import { afterAll, beforeAll, expect, test } from "vitest";
import { Remote } from "../src/remote.ts";

const FIXTURE = new URL("./remote.fixture.ts", import.meta.url);
let remote: Remote;

beforeAll(async () => {
  remote = await Remote.fork(FIXTURE, { greeting: "hello" });
});

afterAll(() => remote.close());

test("a remote process returns values, and requests may overlap", async () => {
  await expect(Promise.all([remote.ask("greet", "a"), remote.ask("greet", "b")])).resolves.toEqual([
    "hello a",
    "hello b",
  ]);
});

test("an error of the remote process keeps its name and its stack", async () => {
  await expect(remote.ask("fail")).rejects.toMatchObject({
    name: "RangeError",
    message: expect.stringMatching(/as asked[\s\S]*remote\.fixture/),
  });
  await expect(remote.ask("sing")).rejects.toThrow("no such verb: sing");
});

test("CPU time is that of the remote process", async () => {
  const before = await remote.cpu();
  await remote.ask("spin", 3e6);
  expect(await remote.cpu()).toBeGreaterThan(before);
});

test("requests to a process that cannot start, or that ends, are rejected", async () => {
  await expect(Remote.fork(FIXTURE, { greeting: "" })).rejects.toThrow("no greeting");
  const other = await Remote.fork(FIXTURE, { greeting: "bye" });
  await expect(other.ask("die")).rejects.toThrow("ended with code 3");
  await other.close();
});
