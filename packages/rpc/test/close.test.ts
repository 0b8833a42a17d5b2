import { expect, test } from "vitest";
import type { CallContext } from "../src/index.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();

test("a call that is popped while its server closes runs to its end", async () => {
  const work = async (_params: unknown, { signal }: CallContext) => {
    for (let i = 0; i < 4; i++) {
      await new Promise((resolve) => setTimeout(resolve, 2));
      signal.throwIfAborted();
    }
    return "done";
  };
  const client = await stage.client();
  let worker = await stage.serve({ work });
  await client.call("demo.work");
  for (let i = 0; i < 20; i++) {
    const call = client.call("demo.work");
    for (let turn = 0; turn < i % 4; turn++) await new Promise((resolve) => setImmediate(resolve));
    await worker.close();
    worker = await stage.serve({ work }); // runs it if the other has not
    await expect(call).resolves.toBe("done");
  }
}, 60_000);
