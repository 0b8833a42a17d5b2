import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();

test("what an abort listener of a handler throws is an error of the server, which goes on", async () => {
  const errors: string[] = [];
  const worker = await stage.serve({
    wait: (_params, { signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener("abort", () => {
          throw new Error("thrown by a listener");
        });
        signal.addEventListener("abort", async () => {
          throw new Error("rejected by a listener");
        });
        signal.addEventListener("abort", () => reject(signal.reason));
      }),
    echo: (params) => params,
  });
  worker.on("error", (error) => errors.push((error as Error).message));
  const client = await stage.client();
  const controller = new AbortController();
  const call = client.call("demo.wait", [], { signal: controller.signal });
  await eventually(() => expect(worker.stats().running).toBe(1));
  controller.abort();
  await expect(call).rejects.toThrow();
  await eventually(() =>
    expect(errors).toEqual(["thrown by a listener", "rejected by a listener"]),
  );
  expect(await client.call("demo.echo", [1])).toEqual([1]);
});
