// Follows docs/guides/getting-started.md: runs its `npm start`, then each of its shell blocks in a second shell.
// Only the port and the home folder differ.
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { freePort } from "@ropeway/testkit";
import { WatchedProcess } from "@ropeway/testkit/internal";
import { expect, test } from "vitest";
import { blocks } from "../docs/pages.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const page = join("docs", "guides", "getting-started.md");
const [start = "", ...others] = blocks(root)
  .filter(({ path, language }) => path === page && language === "sh")
  .map(({ code }) => code);

test("every shell block of getting-started runs as it is pasted", {
  timeout: 600_000,
}, async () => {
  const home = mkdtempSync(join(tmpdir(), "ropeway-start-"));
  const port = await freePort();
  const env = {
    REDIS_URL: "",
    ROPEWAY_HOME: home,
    ROPEWAY_PROGRAMS: join(root, ".ropeway", "programs"),
    ROPEWAY_PORT: String(port),
    ROPEWAY_MERGE_PORT: "0",
    ROPEWAY_ADMIN_PASSWORD: "one password that nobody guesses",
  };
  expect(start).toBe("npm start");
  const started = await WatchedProcess.start(["bash", "-c", start], { cwd: root, env });
  try {
    await started.stdout.find(/^ropeway ready /, { from: 0, withinMs: 400_000 });
    const printed: string[] = [];
    for (const block of others) {
      const code = block.replaceAll("127.0.0.1:7480", `127.0.0.1:${port}`);
      const options = { cwd: root, env: { ...process.env, ...env } };
      const { stdout } = await promisify(execFile)(
        "bash",
        ["-euo", "pipefail", "-c", code],
        options,
      );
      printed.push(stdout);
    }
    expect(printed.length).toBeGreaterThanOrEqual(4);
    expect(printed.join("")).toMatch(/welcome/);
    expect(printed.join("")).toMatch(/"token":"/);
    process.kill(started.pid, "SIGINT"); // to npm alone: a terminal would send it to every process
    await started.log.find(/^Stopping /, { withinMs: 30_000 });
    expect((await started.exitWithin(60_000)).signal).not.toBe("SIGKILL");
  } finally {
    await started.terminate(30_000);
    rmSync(home, { recursive: true, force: true, maxRetries: 5 });
  }
});
