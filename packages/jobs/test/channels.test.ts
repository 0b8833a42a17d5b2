/** A Redis user with rights on keys but not on channels. */
import { connect } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { Queue, Worker } from "../src/index.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();
const soon = { withinMs: 15_000 };

it("a user without rights on channels adds, delays, runs, awaits and cancels, with few connections", async () => {
  await one.server.command("ACL", "SETUSER", "ann", "on", ">pw", "~*", "+@all", "resetchannels");
  const url = one.server.url.replace("redis://", "redis://ann:pw@");
  const redis = await connect(url);
  const queue = new Queue(redis, "no channels");
  const errors: unknown[] = [];
  const worker = new Worker(
    redis,
    "no channels",
    (job) =>
      job.name === "stuck"
        ? new Promise((_, reject) => {
            job.signal.addEventListener("abort", () => reject(job.signal.reason));
          })
        : job.name,
    { leaseMs: 600, concurrency: 3 },
  );
  worker.on("error", (error) => void errors.push(error));
  const delayed = await queue.add("delayed", 1, { delayMs: 50, awaited: true });
  expect(await delayed.result({ timeoutMs: 10_000 })).toBe("delayed");
  expect(await queue.run("plain", 1, { timeoutMs: 10_000 })).toBe("plain");
  const stuck = await queue.add("stuck", 1, { awaited: true });
  await eventually(() => expect(worker.running).toBe(1), soon);
  await stuck.cancel("enough");
  await expect(stuck.result({ timeoutMs: 10_000 })).rejects.toMatchObject({
    code: "JOB_CANCELLED",
  });
  expect(errors).toHaveLength(1);
  const clients = String(await one.server.command("CLIENT", "LIST"))
    .trim()
    .split("\n");
  expect(clients.length).toBeLessThan(8);
  await worker.close();
  await queue.close();
  await redis.close();
});
