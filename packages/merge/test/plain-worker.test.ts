// A worker that uses the documented commands of a plain Redis client takes items of a batch that waits for its retry.
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { type Batch, Dispatcher } from "../src/index.ts";
import { queuesForFile } from "./queues-for-file.ts";

const { server, fresh } = await queuesForFile();

interface Case {
  /** How many of the items 1 to 5 the plain worker takes; ours has failed with 1, 2 and 3. */
  readonly takes: number;
  /** An item is pushed after that. */
  readonly pushes: boolean;
  /** The items of our next batch, and which attempt it is. */
  readonly next: { readonly items: string[]; readonly attempt: number };
}

test.each<Case>([
  { takes: 4, pushes: false, next: { items: ["5"], attempt: 1 } },
  { takes: 4, pushes: true, next: { items: ["5", "6"], attempt: 1 } },
  { takes: 2, pushes: false, next: { items: ["3"], attempt: 2 } },
  { takes: 2, pushes: true, next: { items: ["3"], attempt: 2 } },
])("the rest is a batch with an id of its own (%o)", async ({ takes, pushes, next }) => {
  const queue = fresh();
  const p = queue.options.prefix;
  const batches: Batch[] = [];
  await using dispatcher = new Dispatcher(
    queue,
    async (batch) => {
      batches.push(batch);
      if (batches.length === 1) throw new Error("no");
    },
    { backoff: { delayMs: 600_000, maxMs: 600_000 } },
  );
  await queue.pushAll(
    "k",
    ["1", "2", "3"].map((body) => ({ body })),
  );
  await dispatcher.start();
  await eventually(async () => {
    expect(await server.command("HGET", `${p}:queue:k:state`, "error")).not.toBeNull();
  });
  await queue.pushAll(
    "k",
    ["4", "5"].map((body) => ({ body })),
  );
  await server.command("SET", `${p}:queue:k:locker`, "theirs", "NX", "PX", 60_000);
  await server.command("LTRIM", `${p}:queue:k`, takes, -1);
  await server.command("DEL", `${p}:queue:k:locker`);
  if (pushes) await queue.push("k", "6");
  await server.command("ZADD", `${p}:timer`, 1, "k");
  await server.command("PUBLISH", `${p}:action:push`, "insert");
  await eventually(() => expect(batches.length).toBeGreaterThan(1));
  const [failed, second] = batches;
  const items = second?.items.map(({ body }) => String(body));
  expect({ items, attempt: second?.attempt }).toEqual(next);
  expect(second?.id).not.toBe(failed?.id);
  await eventually(async () => expect(await server.command("EXISTS", `${p}:queue:k`)).toBe(0));
  await queue.close();
});
