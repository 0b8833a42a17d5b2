import { deferred } from "@ropeway/core/internal";
import { eventually } from "@ropeway/testkit";
import { afterEach, expect, test, vi } from "vitest";
import { Pool } from "../src/pool.ts";

function setUp(most: number, idleMs?: number) {
  const log: string[] = [];
  const pool = new Pool<string>({
    what: "things",
    most,
    ...(idleMs === undefined ? {} : { idleMs }),
    open: (name) => {
      log.push(`open ${name}`);
      return name;
    },
    close: (name) => log.push(`close ${name}`),
  });
  return { pool, log };
}

afterEach(() => void vi.useRealTimers());

const nothing = async () => {};

test("requests for one name share one object, and the oldest idle one makes room", async () => {
  const { pool, log } = setUp(2);
  await Promise.all([pool.use("a", nothing), pool.use("a", nothing)]);
  await pool.use("b", nothing);
  await pool.use("a", nothing);
  await pool.use("c", nothing);
  expect(log).toEqual(["open a", "open b", "close b", "open c"]);
  await pool.close();
});

test("what is in use is never closed; when all is, one more is refused", async () => {
  const { pool, log } = setUp(2);
  const end = deferred<void>();
  const using = [pool.use("a", () => end.promise), pool.use("b", () => end.promise)];
  await expect(pool.use("c", nothing)).rejects.toMatchObject({ code: "OVERLOADED" });
  for (let i = 0; i < 100; i++) await pool.use("a", nothing);
  expect(log).toEqual(["open a", "open b"]);
  end.resolve();
  await Promise.all(using);
  await pool.use("c", nothing);
  expect(log).toEqual(["open a", "open b", "close b", "open c"]);
  await pool.close();
});

test("an object that nobody uses is closed after a while", async () => {
  const { pool, log } = setUp(2, 5);
  await pool.use("a", nothing);
  await eventually(() => expect(log).toEqual(["open a", "close a"]));
  expect(pool.size).toBe(0);
});

test("an object that does not open is tried again, and work that throws gives it back", async () => {
  let fails = true;
  const pool = new Pool<string>({
    what: "things",
    most: 1,
    open: async (name) => {
      if (fails) throw new Error("no");
      return name;
    },
    close: nothing,
  });
  await expect(pool.use("a", nothing)).rejects.toThrow("no");
  fails = false;
  const broken = pool.use("a", () => Promise.reject(new Error("broken")));
  await expect(broken).rejects.toThrow("broken");
  await pool.use("b", nothing);
  await pool.close();
  await expect(pool.use("a", nothing)).rejects.toMatchObject({ code: "CLOSED" });
});

test("a hundred thousand names leave no more than the bound", async () => {
  const { pool, log } = setUp(8);
  for (let i = 0; i < 100_000; i++) await pool.use(`name${i}`, nothing);
  expect(pool.size).toBe(8);
  await pool.close();
  expect(log.filter((line) => line.startsWith("open"))).toHaveLength(100_000);
  expect(log.filter((line) => line.startsWith("close"))).toHaveLength(100_000);
});

test("an object that is taken again while idle stays open for as long as it is used", async () => {
  vi.useFakeTimers();
  const { pool, log } = setUp(2, 1_000);
  await pool.use("a", nothing);
  const end = deferred<void>();
  const using = pool.use("a", () => end.promise);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(log).toEqual(["open a"]);
  end.resolve();
  await using;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(log).toEqual(["open a", "close a"]);
});
