// Runs the *.leak.ts files of this folder under vitest, with the setup file of our own tests.
import { fileURLToPath } from "node:url";
import { startVitest } from "vitest/node";

const conditions = ["@ropeway/source", "module", "node", "default"];

await startVitest(
  "test",
  [],
  {
    config: false,
    root: fileURLToPath(new URL(".", import.meta.url)),
    include: ["*.leak.ts"],
    setupFiles: [fileURLToPath(new URL("../../src/setup.ts", import.meta.url))],
    reporters: ["json"],
    maxWorkers: 2,
    watch: false,
  },
  { resolve: { conditions }, ssr: { resolve: { conditions, externalConditions: conditions } } },
);
