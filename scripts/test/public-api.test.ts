// A public signature is what users see in their editor: it says what it is, hides nothing behind `any`, and
// mentions only types that can be imported.
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
