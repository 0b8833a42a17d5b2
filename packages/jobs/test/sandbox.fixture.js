/** Handlers that run in a sandbox: each name does one thing that sandboxes are for. */
import process from "node:process";

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
  /** Returns while it still uses its job, after the sandbox has begun the next one. */
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
  strange: () => () => "a function cannot be copied",
};
