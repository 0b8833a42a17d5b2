import { afterEach, expect, test, vi } from "vitest";
import { TokenGuard } from "../src/access/token-guard.ts";

afterEach(() => void vi.useRealTimers());

const bearer = (token: string) => `Bearer ${token}`;

test("without tokens everything is let in; with tokens only those are", () => {
  expect(new TokenGuard().refusal(undefined, "a")).toBeUndefined();
  const guard = new TokenGuard(["one", "two"]);
  expect(guard.refusal(bearer("two"), "a")).toBeUndefined();
  expect(guard.refusal(bearer("three"), "a")?.code).toBe("UNAUTHENTICATED");
  expect(guard.refusal(undefined, "a")?.code).toBe("UNAUTHENTICATED");
});

test("guesses are throttled per address, and then a right one is not looked at either", () => {
  const guard = new TokenGuard(["right"]);
  for (let i = 0; i < 20; i++) {
    expect(guard.refusal(bearer(`guess${i}`), "a")?.code).toBe("UNAUTHENTICATED");
  }
  expect(guard.refusal(bearer("right"), "a")).toMatchObject({ code: "TOO_MANY_LOGINS" });
  expect(guard.refusal(bearer("right"), "b")).toBeUndefined();
});

test("an address that has used a token keeps using it, whatever others there guess", () => {
  const guard = new TokenGuard(["right", "other"]);
  expect(guard.refusal(bearer("right"), "proxy")).toBeUndefined();
  for (let i = 0; i < 50; i++) guard.refusal(bearer(`guess${i}`), "proxy");
  expect(guard.refusal(bearer("right"), "proxy")).toBeUndefined();
  expect(guard.refusal(bearer("other"), "proxy")?.code).toBe("TOO_MANY_LOGINS");
});

test("requests without a token are no guesses, and addresses are remembered up to a bound", () => {
  const guard = new TokenGuard(["right"]);
  for (let i = 0; i < 100; i++) guard.refusal(undefined, "a");
  expect(guard.refusal(bearer("right"), "a")).toBeUndefined();
  for (let i = 0; i < 20_000; i++) guard.refusal(bearer("guess"), `place${i}`);
  expect(guard.size).toBe(10_000);
});

test("the wait ends, grows with each further guess, and is forgotten after an hour without one", () => {
  vi.useFakeTimers({ toFake: ["performance"] });
  const guard = new TokenGuard(["right"]);
  const guess = () => guard.refusal(bearer("guess"), "a");
  for (let i = 0; i < 20; i++) guess();
  expect(guess()).toMatchObject({ code: "TOO_MANY_LOGINS", retryAfterMs: 1_000 });
  vi.advanceTimersByTime(1_000);
  expect(guess()?.code).toBe("UNAUTHENTICATED");
  expect(guess()).toMatchObject({ code: "TOO_MANY_LOGINS", retryAfterMs: 2_000 });
  vi.advanceTimersByTime(3_600_001);
  for (let i = 0; i < 20; i++) expect(guess()?.code).toBe("UNAUTHENTICATED");
  expect(guess()).toMatchObject({ code: "TOO_MANY_LOGINS", retryAfterMs: 1_000 });
});
