import { describe, expect, expectTypeOf, it } from "vitest";
import type { InputOf, OutputOf, Schema } from "../src/index.ts";
import { isSchema, issuesText } from "../src/internal.ts";

const port: Schema<string, number> = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) =>
      typeof value === "string"
        ? { value: Number(value) }
        : { issues: [{ message: "expected a string", path: ["ports", { key: 0 }] }] },
  },
};

describe("a Standard Schema", () => {
  it("gives the types of what goes in and what comes out", () => {
    expectTypeOf<InputOf<typeof port>>().toEqualTypeOf<string>();
    expectTypeOf<OutputOf<typeof port>>().toEqualTypeOf<number>();
    expectTypeOf(port).toExtend<Schema>();
  });

  it("is recognised, and its issues are one line", async () => {
    expect(isSchema(port)).toBe(true);
    for (const other of [undefined, null, 1, {}, { "~standard": {} }]) {
      expect(isSchema(other)).toBe(false);
    }
    const result = await port["~standard"].validate(1);
    expect(issuesText(result.issues ?? [])).toBe("ports.0: expected a string");
  });
});
