// Users see public signatures in their editor. Each one has a description, no `any`, and mentions only exported
// types.
import { basename } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { publicPackages } from "../docs/consumer.mjs";
import { faultsOf } from "../docs/public-faults.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

describe.each(publicPackages(root).map((folder) => [basename(folder), folder]))(
  "%s",
  (_, folder) => {
    test("exports only documented names, with public types and without any", () => {
      expect(faultsOf(folder)).toEqual([]);
    });
  },
);
