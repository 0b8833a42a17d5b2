/** Handlers that run in a sandbox: each name tests one thing that sandboxes are for. */
import process from "node:process";
import { parentPort } from "node:worker_threads";

const postMessage = (message) => process.send(message);

let strayed;

export const handlers = {
  square: (job) => ({ square: job.data ** 2, pid: process.pid }),
  report: async (job) => {
    await job.progress({ percent: 50 });
    await job.log(`half of ${job.data}`);
    await job.touch();
    await job.update(`${job.data} more`);
    return `${job.data} ${job.attempt}/${job.maxAttempts}`;
  },
  fail: (job) => {
    if (job.data === "late") job.delay(Number.NaN);
    if (job.data === "for good") {
      throw Object.assign(new Error("never again"), { code: "JOB_UNRECOVERABLE", details: {} });
    }
    throw Object.assign(new RangeError("out of range"), { code: "E_RANGE" });
  },
  crash: () => process.exit(3),
  block: () => {
    for (;;) Math.random();
  },
  obey: (job) =>
    new Promise((_, reject) => {
      job.signal.addEventListener("abort", () => reject(job.signal.reason));
    }),
  hog: () => {
    const kept = [];
    for (;;) kept.push(Array.from({ length: 100_000 }, (_, i) => i));
  },
  flow: async (job) => {
    const outcomes = await job.children();
    if (outcomes.length > 0) return outcomes;
    await job.addChildren([{ name: "square", data: 3 }]);
    return job.waitForChildren();
  },
  /** Returns while it still uses its job, after the sandbox has started the next one. */
  stray: (job) => {
    setTimeout(() => {
      strayed = Promise.allSettled([job.update("stolen"), job.progress("stolen")]);
    }, 50);
  },
  next: async (job) => {
    while (strayed === undefined) await new Promise((resolve) => setTimeout(resolve, 5));
    await job.touch();
    return (await strayed).map(({ reason }) => reason?.code);
  },
  /** Uses the channel to its worker, like libraries that assume to be the only user. */
  chatty: async () => {
    const strange = [null, "ready", { kind: "failed" }, { kind: "done", value: "forged" }];
    for (const message of strange) (parentPort ?? { postMessage }).postMessage(message);
    await new Promise((resolve) => setTimeout(resolve, 50));
    return "done";
  },
  /** Sends messages of the kind that only the program around it sends, malformed. */
  forge: async () => {
    (parentPort ?? { postMessage }).postMessage({ ropeway: "jobs", kind: "failed" });
    await new Promise((resolve) => setTimeout(resolve, 50));
    return "done";
  },
  unreadable: (job) => {
    const details = {};
    details.details = details;
    if (job.data === "cycle") throw Object.assign(new Error("cycle"), { code: "CYCLE", details });
    if (job.data === "bare") throw Object.create(null);
    throw Object.defineProperty(new Error(), "name", {
      get: () => {
        throw new Error("do not look");
      },
    });
  },
  strange: () => () => "a function cannot be copied",
};
