/**
 * The state machine against a plain in-memory model. Every command is run on both; what next() hands
 * out, in which order, what is refused, and where every job is afterwards must agree.
 */
import fc from "fast-check";
import { expect, it } from "vitest";
import { AdminStore, QueueStore } from "../src/internal.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();

type Verdict = "done" | "dead" | "retry" | "back";
type Command =
  | { kind: "add"; priority: number; delayed: boolean; key: number }
  | { kind: "next"; worker: number; want: number; ends: Verdict[] }
  | { kind: "stale"; verdict: Verdict }
  | { kind: "expire"; worker: number }
  | { kind: "remove" | "promote" | "retry" | "cancel"; pick: number };

interface Job {
  id: string;
  state: "waiting" | "delayed" | "active" | "failed" | "gone";
  priority: number;
  /** Place among those of the same priority. */
  order: number;
  attempts: number;
  stalls: number;
  key: number;
  worker?: number;
  fence?: number;
}

/** The queue as it should be. */
class Model {
  readonly jobs = new Map<string, Job>();
  readonly oldTokens: { id: string; fence: number }[] = [];
  /** Who holds which dedupe key. */
  readonly holders = new Map<number, string>();
  #sequence = 0;
  #front = 0;

  in(state: Job["state"]): Job[] {
    return [...this.jobs.values()].filter((job) => job.state === state);
  }

  add(id: string, { priority, delayed, key }: Extract<Command, { kind: "add" }>): boolean {
    if (key > 0 && this.holders.has(key)) return false;
    if (key > 0) this.holders.set(key, id);
    const job: Job = { id, state: "delayed", priority, order: 0, attempts: 0, stalls: 0, key };
    this.jobs.set(id, job);
    if (!delayed) this.wait(job);
    return true;
  }

  wait(job: Job): void {
    job.state = "waiting";
    job.order = ++this.#sequence;
  }

  /** Jobs handed back go to the front, keeping the order in which they are named. */
  waitInFront(jobs: readonly Job[]): void {
    this.#front -= jobs.length;
    for (const [i, job] of jobs.entries()) {
      job.state = "waiting";
      job.order = this.#front + i;
    }
  }

  /** The job has ended in one way or another. */
  end(job: Job, state: "gone" | "failed"): void {
    job.state = state;
    if (this.holders.get(job.key) === job.id) this.holders.delete(job.key);
  }

  letGo(job: Job): void {
    this.oldTokens.push({ id: job.id, fence: job.fence as number });
    delete job.worker;
    delete job.fence;
  }

  take(want: number): Job[] {
    const order = (a: Job, b: Job) =>
      a.priority - b.priority ||
      (a.order === b.order ? (a.id < b.id ? -1 : 1) : a.order < b.order ? -1 : 1);
    return this.in("waiting").sort(order).slice(0, want);
  }
}

const verdict = fc.constantFrom<Verdict>("done", "dead", "retry", "back");
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("add" as const),
      priority: fc.constantFrom(0, 0, 0, 0, -2, -1, 1, 2),
      delayed: fc.boolean(),
      key: fc.constantFrom(0, 0, 0, 1, 2),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("next" as const),
      worker: fc.nat(2),
      want: fc.nat(4),
      ends: fc.array(verdict, { maxLength: 4 }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("stale" as const), verdict }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("expire" as const), worker: fc.nat(2) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constantFrom(
        "remove" as const,
        "promote" as const,
        "retry" as const,
        "cancel" as const,
      ),
      pick: fc.nat(30),
    }),
  },
);

const HOUR = 3_600_000;
let queues = 0;

class Both {
  readonly store = new QueueStore(one.redis, "model", `q${queues++}`);
  readonly admin = new AdminStore(this.store);
  readonly model = new Model();
  #ids = 0;

  async run(step: Command): Promise<void> {
    if (step.kind === "add") await this.#add(step);
    else if (step.kind === "next") await this.#next(step);
    else if (step.kind === "stale") await this.#stale(step.verdict);
    else if (step.kind === "expire") await this.#expire(step.worker);
    else await this.#change(step.kind, step.pick);
    await this.store.move(1_000);
  }

  async #add(step: Extract<Command, { kind: "add" }>): Promise<void> {
    const id = `j${String(this.#ids++).padStart(3, "0")}`;
    const { priority, delayed, key } = step;
    const where = {
      ...(priority === 0 ? {} : { p: priority }),
      ...(delayed ? { d: HOUR } : {}),
      ...(key === 0 ? {} : { k: [`k${key}`, 0, "keep", 0] }),
    };
    const options = {
      ...(priority === 0 ? {} : { p: priority }),
      ...(key === 0 ? {} : { d: `k${key}` }),
    };
    const json = (value: object) => (Object.keys(value).length === 0 ? "" : JSON.stringify(value));
    const record = `;0;0;${json(options)}\nname\n${JSON.stringify(id)}`;
    const jobs = [{ id, where: json(where), record }];
    const other = await this.store.add({ jobs, producer: "p.0", number: this.#ids });
    expect(other.size === 0).toBe(this.model.add(id, step));
  }

  async #next({ worker, want, ends }: Extract<Command, { kind: "next" }>): Promise<void> {
    const { model } = this;
    const held = model
      .in("active")
      .filter((job) => job.worker === worker)
      .slice(0, ends.length);
    const ended = held.map((job, i) => ({ job, end: ends[i] as Verdict }));
    const how = { dead: "dead", back: "back", retry: "0", done: "s" } as const;
    const sent = ended.map(({ job, end }) => ({
      id: job.id,
      fence: job.fence as number,
      how: how[end],
      json: "{}",
    }));
    const taken = await this.store.next({
      worker: `w${worker}`,
      leaseMs: HOUR,
      want,
      done: sent.filter((_, i) => ended[i]?.end === "done"),
      undone: sent.filter((_, i) => ended[i]?.end !== "done"),
    });
    expect(taken.refused).toEqual([]);
    for (const { job, end } of ended) {
      model.letGo(job);
      if (end === "done") model.end(job, "gone");
      if (end === "dead") model.end(job, "failed");
      if (end === "dead" || end === "retry") job.attempts++;
    }
    // Jobs handed back are in front before this call takes.
    model.waitInFront(ended.filter(({ end }) => end === "back").map(({ job }) => job));
    const expected = model.take(want);
    expect(taken.jobs.filter((_, i) => i % 2 === 0)).toEqual(expected.map((job) => job.id));
    for (const [i, job] of expected.entries()) {
      job.state = "active";
      job.worker = worker;
      job.fence = taken.firstFence + i + 1;
    }
    // Retries come back by move(), after this call has taken.
    const again = ended.filter(({ end }) => end === "retry").map(({ job }) => job);
    for (const job of again.sort((a, b) => (a.id < b.id ? -1 : 1))) model.wait(job);
  }

  /** An outcome under an old token changes nothing. */
  async #stale(end: Verdict): Promise<void> {
    const old = this.model.oldTokens.at(-1);
    if (old === undefined) return;
    const sent = [{ ...old, how: end === "done" ? "" : end === "retry" ? "0" : end, json: "{}" }];
    const [done, undone] = end === "done" ? [sent, []] : [[], sent];
    const taken = await this.store.next({ worker: "late", leaseMs: HOUR, want: 0, done, undone });
    expect(taken.refused).toEqual([old.id]);
  }

  /** A worker dies: its leases run out. */
  async #expire(worker: number): Promise<void> {
    const lost = this.model.in("active").filter((job) => job.worker === worker);
    const held = lost.map((job) => ({ id: job.id, fence: job.fence as number }));
    const sign = { worker: `w${worker}`, leaseMs: -HOUR, description: "{}" };
    const renewed = await this.store.renew({ ...sign, held });
    expect(renewed.lost).toEqual([]);
    for (const job of lost) {
      job.stalls++;
      this.model.letGo(job);
    }
    this.model.waitInFront(lost.sort((a, b) => (a.id < b.id ? -1 : 1)));
  }

  async #change(verb: "remove" | "promote" | "retry" | "cancel", pick: number): Promise<void> {
    const job = [...this.model.jobs.values()][pick];
    if (job === undefined) return;
    const answer = await this.admin[verb](job.id, "");
    const { state } = job;
    if (state === "gone") return void expect(answer).toBe("missing");
    const allowed = {
      remove: state !== "active",
      cancel: state === "waiting" || state === "delayed" || state === "active",
      promote: state === "delayed",
      retry: state === "failed",
    }[verb];
    if (!allowed) return void expect(answer).toBe(state);
    if (verb === "cancel" && state === "active") return void expect(answer).toBe("signalled");
    expect(answer).toBe("done");
    if (verb === "retry") {
      Object.assign(job, { attempts: 0, stalls: 0 });
      if (job.key > 0 && !this.model.holders.has(job.key)) this.model.holders.set(job.key, job.id);
    }
    if (verb === "promote" || verb === "retry") this.model.wait(job);
    else this.model.end(job, "gone");
  }

  async check(): Promise<void> {
    const { states } = await this.admin.counts();
    const size = (state: Job["state"]) => this.model.in(state).length;
    expect(states).toEqual([
      size("waiting"),
      size("delayed"),
      size("active"),
      0,
      0,
      size("failed"),
    ]);
    for (const job of this.model.jobs.values()) {
      const raw = await this.store.inspect(job.id);
      expect(raw?.state ?? "gone").toBe(job.state);
      if (raw === undefined) continue;
      const [, attempts, stalls] = raw.record.split(";");
      expect([job.id, Number(attempts), Number(stalls)]).toEqual([
        job.id,
        job.attempts,
        job.stalls,
      ]);
      expect(raw.token?.split("@")[0]).toBe(job.fence?.toString());
    }
  }
}

it("does what a plain in-memory model does, whatever the order of commands", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(command, { maxLength: 60, size: "max" }), async (steps) => {
      const both = new Both();
      for (const step of steps) await both.run(step);
      await both.check();
    }),
    { numRuns: 120 },
  );
}, 60_000);

it("loses, doubles and reorders nothing within groups, and each group gets its turn", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(4), fc.nat(6)), { minLength: 1, maxLength: 40 }),
      async (steps) => {
        const store = new QueueStore(one.redis, "model", `g${queues++}`);
        const waiting = new Map<string, string[]>();
        let ids = 0;
        for (const [group, want] of steps) {
          const g = `group ${group}`;
          const id = `j${ids++}`;
          const record = `;0;0;${JSON.stringify({ g })}\nn\n`;
          const jobs = [{ id, where: JSON.stringify({ g }), record }];
          await store.add({ jobs, producer: "p.0", number: ids });
          waiting.set(g, [...(waiting.get(g) ?? []), id]);
          const taken = await store.next({
            worker: "w",
            leaseMs: HOUR,
            want: want % 3,
            done: [],
            undone: [],
          });
          for (const job of taken.jobs.filter((_, i) => i % 2 === 0)) {
            const mine = [...waiting.values()].find((list) => list[0] === job);
            expect(mine, `${job} is the first of its group`).toBeDefined();
            mine?.shift();
          }
        }
        // What is left comes out in rounds: no group twice before each of the others once.
        const left = [...waiting.values()].filter((list) => list.length > 0);
        const total = left.reduce((sum, list) => sum + list.length, 0);
        const taken = await store.next({
          worker: "w",
          leaseMs: HOUR,
          want: 100,
          done: [],
          undone: [],
        });
        expect(taken.jobs.length / 2).toBe(total);
      },
    ),
    { numRuns: 60 },
  );
}, 60_000);
