import { expect, test } from "vitest";
import { deferred, sleep, within } from "../src/wait.ts";

test("a wait that is aborted rejects at once and leaves no listener", async () => {
  const abort = new AbortController();
  const waiting = sleep(60_000, abort.signal);
  abort.abort("enough");
  await expect(waiting).rejects.toMatchObject({ code: "ABORTED", cause: "enough" });
  await expect(sleep(60_000, abort.signal)).rejects.toMatchObject({ code: "ABORTED" });
});

test("whichever comes first decides: the outcome, the time or the signal", async () => {
  const never = deferred<number>();
  const abort = new AbortController();
  await expect(within(Promise.resolve(1), { timeoutMs: 1_000 })).resolves.toBe(1);
  await expect(within(Promise.reject(new Error("no")), {})).rejects.toThrow("no");
  await expect(within(never.promise, { timeoutMs: 5, what: "lunch" })).rejects.toMatchObject({
    code: "TIMEOUT",
    message: "lunch timed out after 5 ms",
  });
  const aborted = within(never.promise, { signal: abort.signal });
  abort.abort();
  await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
});

test("what is no AbortSignal is refused, and the outcome that comes later meets nobody", async () => {
  const late = deferred<number>();
  for (const signal of [null, {}, 5, { aborted: false }, new AbortController()]) {
    const given = { signal: signal as AbortSignal };
    await expect(within(late.promise, given)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(sleep(1, given.signal)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  }
  late.reject(new Error("nobody waits any more")); // unhandled, it would fail the run
  await sleep(1);
});
