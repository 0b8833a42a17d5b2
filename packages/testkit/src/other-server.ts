// Servers of releases other than the installed one. The script `fetch-server.sh` downloads them from
// Debian's archive. On platforms without apt-get, the tests that need them are skipped with a reason.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The releases that the script can download. */
export type OtherVersion =
  | "redis-6.0"
  | "redis-7.0"
  | "redis-8.0"
  | "valkey-8.1"
  | "etcd-3.4"
  | "etcd-3.5";

/** Either the command that starts the server, or the reason why there is none. */
export type OtherServer =
  | { readonly version: OtherVersion; readonly command: readonly string[]; readonly reason?: never }
  | { readonly version: OtherVersion; readonly command?: never; readonly reason: string };

const FETCH_WITHIN_MS = 120_000;

const asked = new Map<OtherVersion, OtherServer>();

/**
 * Finds a server of another release. Synchronous, so that vitest can skip tests while it collects them:
 *
 * ```ts
 * const old = otherServer("redis-6.0");
 * describe.skipIf(old.reason)(`Redis 6.0 ${old.reason ?? ""}`, () => { ... });
 * ```
 */
export function otherServer(version: OtherVersion): OtherServer {
  const known = asked.get(version);
  if (known !== undefined) return known;
  const answer = fetchServer(version, findFetch());
  asked.set(version, answer);
  return answer;
}

/** @internal Exported to test a missing or failing script. */
export function fetchServer(version: OtherVersion, fetch: string | undefined): OtherServer {
  if (fetch === undefined) {
    return {
      version,
      reason: `skipped: ${version} comes from Debian's archive, which needs apt-get on x86-64 Linux`,
    };
  }
  // A lock, because test files run in parallel and the script unpacks into one folder.
  const lock = join(tmpdir(), "ropeway-servers-fetch.lock");
  const bounds = { encoding: "utf8", timeout: FETCH_WITHIN_MS } as const;
  const run = spawnSync("flock", [lock, fetch, version], bounds);
  const path = run.stdout?.trim().split("\n").at(-1);
  if (run.status !== 0 || !path) {
    const why = run.error?.message ?? run.stderr.trim().split("\n").at(-1);
    return { version, reason: `skipped: ${version} could not be fetched: ${why}` };
  }
  return { version, command: [path] };
}

/** The path of the script, on platforms that support it. */
function findFetch(): string | undefined {
  const possible =
    process.platform === "linux" && process.arch === "x64" && existsSync("/usr/bin/apt-get");
  return possible ? fileURLToPath(new URL("../fetch-server.sh", import.meta.url)) : undefined;
}
