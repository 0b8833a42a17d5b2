import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import { resolveProvideOptions } from "../src/options.ts";

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

test("the timeout applies beside a signal, also after a garbage collection", async () => {
  const caller = new AbortController();
  const { signal } = resolveProvideOptions({ timeoutMs: 500, signal: caller.signal });
  await expect
    .poll(
      () => {
        collectGarbage();
        return signal.aborted;
      },
      { timeout: 5_000 },
    )
    .toBe(true);
});
