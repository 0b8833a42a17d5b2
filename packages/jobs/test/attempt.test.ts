import { eventually } from "@ropeway/testkit";
import { expect, it } from "vitest";
import type { JobContext } from "../src/index.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();

it("a worker reports what an abort listener of a handler throws, and goes on", async () => {
  const queue = one.queue();
  const errors: string[] = [];
  const worker = one.worker(queue, async (job: JobContext) => {
    if (job.name === "quick") return "done";
    job.signal.addEventListener("abort", () => {
      throw new Error("thrown by a listener");
    });
    job.signal.addEventListener("abort", async () => {
      throw new Error("rejected by a listener");
    });
    return new Promise(() => {}); // never
  });
  worker.on("error", (error) => errors.push((error as Error).message));
  await queue.add("stuck", 1, { timeoutMs: 50 });
  await eventually(() =>
    expect(errors).toEqual(["thrown by a listener", "rejected by a listener"]),
  );
  expect(await queue.run("quick", 1, { timeoutMs: 5_000 })).toBe("done");
});
