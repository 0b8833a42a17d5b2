import { eventually, TestkitError } from "@ropeway/testkit";
import { expect, test } from "vitest";

test("eventually returns the value of the first attempt that passes", async () => {
  let attempts = 0;
  const value = await eventually(() => {
    attempts++;
    expect(attempts).toBeGreaterThan(2);
    return `after ${attempts}`;
  });
  expect(value).toBe("after 3");
});

test("eventually gives up at its bound and keeps the last failure as the cause", async () => {
  const last = new Error("still wrong");
  const given = eventually(() => Promise.reject(last), { withinMs: 20 });
  await expect(given).rejects.toThrow("timed out after 20 ms: still wrong");
  await expect(given).rejects.toMatchObject({ code: "GAVE_UP", cause: last });
  await expect(given).rejects.toBeInstanceOf(TestkitError);
});
