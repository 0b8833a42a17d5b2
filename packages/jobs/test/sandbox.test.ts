/** Handlers that run in separate processes or threads, and the outcome of those that misbehave. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { ClosedError, InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import { deferred } from "@ropeway/core/internal";
import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import {
  InvalidDataError,
  JobCancelledError,
  JobFailedError,
  JobTimeoutError,
  type Middleware,
  NoHandlerError,
  Queue,
  SandboxCrashedError,
  type SandboxOptions,
  UnrecoverableError,
  Worker,
  type WorkerOptions,
} from "../src/index.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const FILE = new URL("./sandbox.fixture.js", import.meta.url);
/** Sandboxes start without the test runner's Node options, and with a long timeout for a busy machine. */
const patient = { execArgv: [], startWithinMs: 60_000 };
const bounds = { timeoutMs: 60_000 };
const soon = { withinMs: 60_000 };

interface SandboxedJobs {
  square: { data: number; result: { square: number; pid: number } };
  report: { data: string; result: string };
  fail: { data: "error" | "for good" | "late"; result: never };
  crash: { data: undefined; result: never };
  block: { data: undefined; result: never };
  obey: { data: undefined; result: never };
  hog: { data: undefined; result: number };
  flow: { data: undefined; result: unknown };
  strange: { data: undefined; result: unknown };
  chatty: { data: undefined; result: string };
  forge: { data: undefined; result: string };
  unreadable: { data: "cycle" | "getter" | "bare"; result: never };
  stray: { data: undefined; result: undefined };
  next: { data: string; result: string[] };
}

describe.each(["process", "thread"] as const)("a handler in a %s", { timeout: 120_000 }, (kind) => {
  let names = 0;
  function sandboxed(sandbox: SandboxOptions = {}, options: WorkerOptions<SandboxedJobs> = {}) {
    const queue = one.keep(new Queue<SandboxedJobs>(one.redis, `${kind} ${names++}`));
    const how = { ...options, batch: 0 as const, sandbox: { kind, ...patient, ...sandbox } };
    const worker = one.keep(new Worker<SandboxedJobs>(one.redis, queue.name, FILE, how));
    return { queue, worker };
  }

  it("returns its result, and its sandbox is used again", async () => {
    const { queue } = sandboxed();
    const results = [];
    for (const n of [2, 3]) results.push(await queue.run("square", n, bounds));
    expect(results.map(({ square }) => square)).toEqual([4, 9]);
    expect(results[0]?.pid).toBe(results[1]?.pid);
    expect(results[0]?.pid === process.pid).toBe(kind === "thread");
  });

  it("reports progress, writes its log, changes its data", async () => {
    const { queue } = sandboxed();
    const keep = { completed: true };
    const job = await queue.add("report", "work", { attempts: 4, awaited: true, keep });
    expect(await job.result(bounds)).toBe("work more 1/4");
    expect(await job.view()).toMatchObject({
      progress: { percent: 50 },
      logs: ["half of work"],
      data: "work more",
    });
  });

  it("that goes on after it has returned cannot touch the next job", async () => {
    const { queue } = sandboxed();
    await queue.add("stray");
    const keep = { completed: true };
    const job = await queue.add("next", "mine", { awaited: true, keep });
    expect(await job.result(bounds)).toEqual(["JOB_STATE", "JOB_STATE"]);
    const view = await job.view();
    expect(view?.data).toBe("mine");
    expect(view?.progress).toBeUndefined();
  });

  it("fails as it would outside, also with what a call refuses or cannot be copied", async () => {
    const { queue } = sandboxed();
    const fails = (data: "error" | "for good" | "late") =>
      queue.run("fail", data, { ...bounds, attempts: 2, backoff: 1 }).catch((error) => error);
    const error = await fails("error");
    expect(error).toBeInstanceOf(JobFailedError);
    const failure = { name: "RangeError", message: "out of range", code: "E_RANGE" };
    expect(error.failure).toMatchObject(failure);
    expect(error.failure.stack).toContain("sandbox.fixture");
    expect(await fails("for good")).toBeInstanceOf(UnrecoverableError);
    expect(await fails("late")).toBeInstanceOf(InvalidArgumentError);
    await expect(queue.run("strange", undefined, bounds)).rejects.toThrow(InvalidDataError);
    const unknown = queue.run("toString" as "strange", undefined, bounds);
    await expect(unknown).rejects.toThrow(NoHandlerError);
  });

  it("waits for children that it added", async () => {
    const { queue } = sandboxed({}, { concurrency: 2 });
    const [child] = (await queue.run("flow", undefined, bounds)) as { result: unknown }[];
    expect(child?.result).toMatchObject({ square: 9 });
  });

  it("fails its attempt when its sandbox crashes; the next attempt has another one", async () => {
    const { queue } = sandboxed();
    const job = await queue.add("crash", undefined, { attempts: 2, backoff: 1, awaited: true });
    await expect(job.result(bounds)).rejects.toThrow(SandboxCrashedError);
    const { failures } = (await job.view()) ?? {};
    expect(failures?.map(({ code }) => code)).toEqual(["SANDBOX_CRASHED", "SANDBOX_CRASHED"]);
    expect(failures?.[0]?.message).toContain("code 3");
    expect(await queue.run("square", 2, bounds)).toMatchObject({ square: 4 });
  });

  it("is killed when it times out, though it blocks its thread", async () => {
    const { queue } = sandboxed({ killAfterMs: 10 });
    await queue.run("square", 1, bounds); // its sandbox has started
    const job = await queue.add("block", undefined, { timeoutMs: 200, awaited: true });
    await expect(job.result(bounds)).rejects.toThrow(JobTimeoutError);
    expect(await queue.run("square", 2, bounds)).toMatchObject({ square: 4 });
  });

  it("is asked to stop when it is cancelled, and killed if it does not", async () => {
    const { queue } = sandboxed({ killAfterMs: 10 }, { concurrency: 2 });
    for (const name of ["obey", "block"] as const) {
      const job = await queue.add(name, undefined, { awaited: true });
      await eventually(
        async () => expect(await job.view()).toMatchObject({ state: "active" }),
        soon,
      );
      const result = job.result(bounds);
      expect(await job.cancel("enough")).toBe("signalled");
      await expect(result).rejects.toThrow(JobCancelledError);
    }
  });

  it("that obeyed leaves its sandbox to the next job, which is not killed", async () => {
    const { queue } = sandboxed({ killAfterMs: 2_000 });
    const { pid } = await queue.run("square", 1, bounds);
    const job = await queue.add("obey", undefined, { awaited: true });
    await eventually(async () => expect(await job.view()).toMatchObject({ state: "active" }), soon);
    const result = job.result(bounds);
    await job.cancel("enough");
    await expect(result).rejects.toThrow(JobCancelledError);
    await sleep(2_500); // longer than killAfterMs
    expect((await queue.run("square", 1, bounds)).pid).toBe(pid);
  });

  it("crashes alone when it needs more memory than it may", async () => {
    const { queue } = sandboxed({ memoryMb: 16 });
    await expect(queue.run("hog", undefined, bounds)).rejects.toThrow(SandboxCrashedError);
  });

  it("may send messages of its own, and throw what cannot be read or copied", async () => {
    const { queue } = sandboxed();
    expect(await queue.run("chatty", undefined, bounds)).toBe("done");
    const { pid } = await queue.run("square", 1, bounds);
    for (const what of ["cycle", "getter", "bare"] as const) {
      await expect(queue.run("unreadable", what, bounds)).rejects.toThrow(JobFailedError);
    }
    expect((await queue.run("square", 1, bounds)).pid).toBe(pid); // it has not crashed
  });

  it("that forges the messages of its sandbox fails its own job only", async () => {
    const { queue } = sandboxed();
    await expect(queue.run("forge", undefined, bounds)).rejects.toThrow(JobFailedError);
    expect(await queue.run("square", 2, bounds)).toMatchObject({ square: 4 });
  });

  it("ends with its worker", async () => {
    const { queue, worker } = sandboxed({}, { closeWithinMs: 50 });
    const job = await queue.add("block");
    await eventually(async () => expect(await job.view()).toMatchObject({ state: "active" }), soon);
    await worker.close(); // the leak check of this file finds leftovers
  });

  it("does not start once its worker is closed", async () => {
    const [reached, goOn, called] = [deferred<void>(), deferred<void>(), deferred<unknown>()];
    const slow: Middleware = async (_job, next) => {
      reached.resolve();
      await goOn.promise;
      const outcome = next();
      called.resolve(outcome);
      return outcome;
    };
    const { queue, worker } = sandboxed({}, { closeWithinMs: 50, middleware: [slow] });
    await queue.add("square", 2);
    await reached.promise;
    await worker.close();
    goOn.resolve();
    await expect(called.promise).rejects.toBeInstanceOf(ClosedError); // the leak check finds a sandbox
  });

  it("must be in a file that exists and can be loaded", async () => {
    const missing = new URL("./nobody.js", import.meta.url);
    expect(() => new Worker(one.redis, "q", missing)).toThrow(InvalidOptionError);
    expect(() => new Worker(one.redis, "q", FILE, { batch: 2 } as object)).toThrow(
      InvalidOptionError,
    );
    const sandbox = { kind: "fibre" } as object;
    expect(() => new Worker(one.redis, "q", FILE, { sandbox })).toThrow(InvalidOptionError);
    const queue = one.queue();
    const notHandlers = new URL("./seed.py", import.meta.url);
    one.keep(new Worker(one.redis, queue.name, notHandlers, { sandbox: { kind, ...patient } }));
    await expect(queue.run("a", 0, bounds)).rejects.toThrow(/cannot load the handler/);
  });
});

it("a process whose handler blocks it ends when its worker was killed", async () => {
  const entry = new URL("../sandbox/entry.js", import.meta.url);
  const program = `
    import { fork } from "node:child_process";
    const inside = fork(new URL(${JSON.stringify(entry.href)}), [${JSON.stringify(FILE.href)}], { execArgv: [] });
    inside.on("message", () => {
      inside.send({ kind: "run", job: { id: "1", name: "block" } });
      console.log(inside.pid);
    });
  `;
  const worker = spawn(process.execPath, ["--input-type=module", "-e", program]);
  const pid = Number(String((await once(worker.stdout, "data"))[0]));
  expect(() => process.kill(pid, 0)).not.toThrow();
  worker.kill("SIGKILL");
  await eventually(() => expect(() => process.kill(pid, 0)).toThrow("ESRCH"), soon);
}, 90_000);
