import { eventually } from "@ropeway/testkit";
import { describe, expect, it } from "vitest";
import { JobCancelledError } from "../src/index.ts";
import { resolveWorkerOptions } from "../src/options.ts";
import { QueueStore } from "../src/store/queue-store.ts";
import { HandlerCaller } from "../src/worker/handler.ts";
import { Heartbeat } from "../src/worker/heartbeat.ts";
import { Runner } from "../src/worker/runner.ts";
import { Source } from "../src/worker/source.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();

/** A runner, and two fetched jobs: the first was fetched so long ago that its lease may have expired. */
async function fetched(batch: number) {
  const queue = one.queue();
  await queue.addBulk([{ name: "late" }, { name: "safe" }]);
  const store = new QueueStore(one.redis, queue.prefix, queue.name);
  const leaseMs = 60_000;
  const onError = (error: unknown) => expect.unreachable(String(error));
  const source = new Source({ store, worker: "w", leaseMs, idleMs: 0, logLines: 1, onError });
  const open = async (ageMs: number) => {
    const { taken } = await source.exchange(1);
    const [attempt] = source.open(taken, performance.now() - ageMs).attempts;
    if (attempt === undefined) throw new Error("nothing was taken");
    return { source, attempt };
  };
  const jobs = [await open(leaseMs + 1), await open(0)] as const;
  const ran: string[] = [];
  const lost: string[] = [];
  const note = (job: { name: string }) => void ran.push(job.name);
  const handler = batch > 0 ? (all: { name: string }[]) => all.forEach(note) : note;
  const caller = new HandlerCaller(handler, { batch, middleware: [], jobs: undefined });
  const nothing = () => {};
  const events = {
    onActive: nothing,
    onCompleted: nothing,
    onFailed: nothing,
    onError: nothing,
    onIdle: nothing,
    onLost: (id: string) => void lost.push(id),
  };
  const runner = new Runner({ options: resolveWorkerOptions({}), caller, events }, nothing);
  return { runner, jobs, source, store, ran, lost };
}

describe("a job that was fetched ahead and not started before its lease ran out", () => {
  it.each([0, 2])("does not start, with batch %s", async (batch) => {
    const { runner, jobs, source, ran, lost } = await fetched(batch);
    if (batch > 0) runner.startBatch(jobs);
    else for (const job of jobs) runner.start(job);
    expect(ran).toEqual(["safe"]);
    expect(lost).toEqual([jobs[0].attempt.id]);
    expect([...source.held.keys()]).toEqual([jobs[1].attempt.id]);
  });

  it("starts if a heartbeat has extended its lease", async () => {
    const { runner, jobs, source, store, ran, lost } = await fetched(0);
    const about = { worker: "w", leaseMs: 60_000, description: "{}", held: source.held };
    const told = { onLost: () => {}, onError: () => {} };
    const heartbeat = new Heartbeat(store, { ...about, ...told });
    heartbeat.start();
    const [{ attempt }] = jobs;
    await eventually(() => expect(attempt.safeUntil).toBeGreaterThan(performance.now()));
    await heartbeat.close();
    for (const job of jobs) runner.start(job);
    expect(ran).toEqual(["late", "safe"]);
    expect(lost).toEqual([]);
  });
});

it.each([0, 2])(
  "a job that was cancelled before it started does not run, with batch %s",
  async (batch) => {
    const { runner, jobs, source, ran } = await fetched(batch);
    const { attempt } = jobs[1];
    attempt.cancelled = true; // as the heartbeat does
    attempt.abort(new JobCancelledError(attempt.id, "enough"));
    if (batch > 0) runner.startBatch([jobs[1]]);
    else runner.start(jobs[1]);
    expect(ran).toEqual([]);
    expect(source.ended).toBe(1);
  },
);
