import { test } from "vitest";

test("leaves a timer running", () => {
  setInterval(() => {}, 60_000);
});
