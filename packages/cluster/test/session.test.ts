/** Sessions: when a lease can no longer be relied on, whatever the store says later. */
import { silentLogger } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { Session } from "../src/session.ts";
import type { Store } from "../src/store/store.ts";
import { redisStage } from "./stage.fixture.ts";

const TTL_MS = 2_000;

/** Stops this process for so long, as a long computation or SIGSTOP does. */
function freeze(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

/** The store, on which a call is followed by a freeze, once; `after` runs when the process goes on. */
function frozenAt(store: Store, method: "grant" | "keepAlive", after: () => void): Store {
  let calls = 0;
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (name !== method) return value.bind(target);
      return async (...args: unknown[]) => {
        const result: unknown = await value.apply(target, args);
        if (calls++ === 0) {
          freeze(TTL_MS * 0.9);
          setTimeout(after, 0);
        }
        return result;
      };
    },
  });
}

it.each(["grant", "keepAlive"] as const)(
  "counts a lease from when %s was sent, and gives it up a margin before its end",
  async (method) => {
    const stage = await redisStage();
    const options = { ttlMs: TTL_MS, what: "a test", logger: silentLogger };
    let session: Session | undefined;
    let [checked, alive] = [false, true];
    const store = frozenAt(await stage.open(), method, () => {
      checked = true;
      alive = session?.alive ?? true;
    });
    session = await Session.open(store, options);
    await eventually(() => expect(checked).toBe(true));
    expect(alive).toBe(false);
    expect(session.signal.aborted).toBe(true);
    await session.close();
    await stage.close();
  },
);

it("renews a lease again when the response to a renewal never comes", async () => {
  const stage = await redisStage();
  let renewals = 0;
  const store = new Proxy(await stage.open(), {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (name !== "keepAlive") return value.bind(target);
      return (lease: string) =>
        ++renewals === 1 ? new Promise<number>(() => {}) : target.keepAlive(lease);
    },
  });
  const options = { ttlMs: TTL_MS, what: "a test", logger: silentLogger };
  const session = await Session.open(store, options);
  await eventually(() => expect(renewals).toBeGreaterThan(1));
  await session.close();
  await stage.close();
});

it("counts a renewal whose response comes after the next one was sent", async () => {
  const stage = await redisStage();
  const ttlMs = 6_000;
  const sent: number[] = [];
  let next = () => {};
  const nextOne = new Promise<void>((resolve) => {
    next = resolve;
  });
  const store = new Proxy(await stage.open(), {
    get(target, name) {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (name !== "keepAlive") return value.bind(target);
      return async (lease: string) => {
        if (sent.push(performance.now()) > 1) {
          next();
          return new Promise<number>(() => {});
        }
        const left = await target.keepAlive(lease);
        await nextOne;
        return left;
      };
    },
  });
  const session = await Session.open(store, { ttlMs, what: "a test", logger: silentLogger });
  const lost = new Promise<number>((resolve) => {
    session.signal.addEventListener("abort", () => resolve(performance.now()));
  });
  const marginMs = ttlMs / 5;
  expect((await lost) - (sent[0] ?? 0)).toBeGreaterThan(ttlMs - marginMs - 50);
  await session.close();
  await stage.close();
});
