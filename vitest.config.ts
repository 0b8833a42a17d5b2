import { readdirSync } from "node:fs";
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

// Tests read the sources, not the build: the condition is the same one tsc and tsx use.
const conditions = ["@ropeway/source", "node", "default"];

const packages = readdirSync(new URL("./packages", import.meta.url));

export default defineConfig({
  resolve: { conditions },
  ssr: { resolve: { conditions, externalConditions: conditions } },
  test: {
    // Only a bound for what hangs: on a crowded machine a test may be starved for many seconds.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // Tests mostly wait for servers, so one file per core does not use a small machine.
    maxWorkers: Math.max(4, availableParallelism() - 1),
    globalSetup: [
      fileURLToPath(new URL("./packages/testkit/src/global-setup.ts", import.meta.url)),
    ],
    // Every test file fails if it leaves a socket, timer, client or server behind.
    setupFiles: [fileURLToPath(new URL("./packages/testkit/src/setup.ts", import.meta.url))],
    projects: [
      ...packages.map((name) => ({
        extends: true as const,
        test: { name, include: [`packages/${name}/test/**/*.test.ts`] },
      })),
      {
        extends: true as const,
        test: {
          name: "workspace",
          include: [
            "scripts/test/**/*.test.ts",
            "bench/test/**/*.test.ts",
            "examples/*/test/**/*.test.ts",
          ],
        },
      },
    ],
  },
});
