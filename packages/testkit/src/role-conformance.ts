/**
 * The conformance tests of every Role. A package calls this once per role:
 *
 *   roleConformance("Worker", { make: (redis) => new Worker(redis, "mail", handler) });
 *
 * - start() twice is one start; close() twice is one close; a closed role does not start.
 * - close() during start() rejects it with ClosedError and leaves nothing open.
 * - A failed start leaves nothing open and the role idle, whichever call to Redis failed. The first run
 *   fails the first call, the second run the second call, until a start succeeds.
 * - pause() and resume() work before and after start().
 * - A listener that throws is reported as `error` and does not stop the role.
 */
import { ClosedError, connect, type Redis, RopewayError } from "@ropeway/core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "./eventually.ts";
import { type RedisServer, startRedis } from "./redis-server.ts";

/** The part of core's Role that the tests use. Roles with typed events satisfy it too. */
export interface TestedRole extends AsyncDisposable {
  readonly state: string;
  start(): Promise<unknown>;
  pause(): Promise<void>;
  resume(): Promise<void>;
  close(): Promise<void>;
  on(event: "error", listener: (error: unknown) => unknown): unknown;
}

/** A role to test. */
export interface RoleSubject<R extends TestedRole> {
  /** Creates a role on a Redis. Called once per test. */
  make(redis: Redis): R;
  /**
   * Adds `listener` for an event and makes the running role emit that event. Omit it for a role whose
   * only event is `error`.
   */
  provoke?(role: R, listener: () => unknown, redis: Redis): Promise<void>;
}

/** The maximum number of calls to Redis in one start. */
const MOST_CALLS = 100;

/** Declares the tests of one role. */
export function roleConformance<R extends TestedRole>(name: string, subject: RoleSubject<R>): void {
  describe(`${name} is a role`, () => {
    let server: RedisServer;
    let redis: Redis;

    beforeAll(async () => {
      server = await startRedis();
      redis = await connect(server.url);
    });
    afterAll(async () => {
      await redis?.close();
      await server?.close();
    });

    const connections = async (): Promise<number> =>
      String(await server.command("CLIENT", "LIST"))
        .trim()
        .split("\n").length;

    /** Runs the work and checks that it leaves no connection open. */
    const leavingNothing = async (work: () => Promise<void>): Promise<void> => {
      const before = await connections();
      await work();
      await eventually(async () => expect(await connections()).toBe(before));
    };

    test("start is idempotent, close is memoised, and a closed role does not start again", () =>
      leavingNothing(async () => {
        const role = subject.make(redis);
        expect(role.state).toBe("idle");
        const [first, second] = await Promise.all([role.start(), role.start()]);
        expect(second).toBe(first);
        const open = await connections();
        await role.start();
        expect({ state: role.state, open: await connections() }).toEqual({
          state: "running",
          open,
        });
        await Promise.all([role.close(), role.close()]);
        await role.close();
        expect(role.state).toBe("closed");
        await expect(role.start()).rejects.toBeInstanceOf(ClosedError);
      }));

    test("close works before start and during start", () =>
      leavingNothing(async () => {
        const idle = subject.make(redis);
        await idle.close();
        expect(idle.state).toBe("closed");
        const role = subject.make(redis);
        const started = role.start().then(
          () => undefined,
          (error: unknown) => error,
        );
        await role.close();
        expect(role.state).toBe("closed");
        expect(await started).toBeInstanceOf(ClosedError);
      }));

    test("a start that fails at any call to Redis leaves nothing open, and the role idle", () =>
      leavingNothing(async () => {
        const before = await connections();
        for (let call = 1; call <= MOST_CALLS; call++) {
          const fault = failingAt(redis, call);
          const role = subject.make(fault.redis);
          role.on("error", () => {}); // background work of the role may fail too
          const error = await role.start().then(
            () => undefined,
            (reason: unknown) => reason,
          );
          const fired = fault.fired(); // read before the background work of the role makes calls
          if (error !== undefined) {
            expect(error).toBeInstanceOf(RopewayError);
            expect({ call, state: role.state }).toEqual({ call, state: "idle" });
            await eventually(async () => expect(await connections()).toBe(before));
          }
          await role.close();
          if (!fired) return;
        }
        expect.fail(`start makes more than ${MOST_CALLS} calls`);
      }));

    test("pause and resume work before and after start", () =>
      leavingNothing(async () => {
        await using role = subject.make(redis);
        await role.pause();
        await role.start();
        expect(role.state).toBe("paused");
        await role.resume();
        expect(role.state).toBe("running");
        await role.pause();
        await role.pause();
        expect(role.state).toBe("paused");
      }));

    const { provoke } = subject;
    if (provoke === undefined) return;
    test("a listener that throws is reported as error, and the role continues", () =>
      leavingNothing(async () => {
        await using role = subject.make(redis);
        const thrown = new Error("thrown by a listener");
        const reported: unknown[] = [];
        role.on("error", (error) => reported.push(error));
        await role.start();
        const listener = () => {
          throw thrown;
        };
        await provoke(role, listener, redis);
        await eventually(() => expect(reported).toContain(thrown));
        expect(role.state).toBe("running");
      }));
  });
}

/** The same Redis, except that the nth call to the server fails. */
function failingAt(redis: Redis, n: number): { readonly redis: Redis; fired(): boolean } {
  let calls = 0;
  const counted = new Set(["send", "run", "blocking", "subscriber"]);
  const proxy = new Proxy(redis, {
    get(target, name) {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== "function") return value;
      const method = value.bind(target) as (...args: unknown[]) => unknown;
      if (!counted.has(String(name))) return method;
      return (...args: unknown[]) => {
        calls += 1;
        if (calls !== n) return method(...args);
        return Promise.reject(new RopewayError("INJECTED", `call ${n} fails in this test`));
      };
    },
  });
  return { redis: proxy, fired: () => calls >= n };
}
