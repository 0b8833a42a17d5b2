import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { timeoutSignal } from "../src/timeout-signal.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

test("a combination with a timeout aborts, also if only the combination refers to the timeout", async () => {
  const { signal } = new AbortController();
  const either = AbortSignal.any([signal, timeoutSignal(300)]);
  await eventually(() => {
    collectGarbage();
    expect(either.aborted).toBe(true);
  });
  expect(either.reason).toMatchObject({ name: "TimeoutError" });
});
