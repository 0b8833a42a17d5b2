// Servers of other releases than the one this machine has. They come from Debian's archive by the
// script `fetch-server.sh`. Where that cannot work, tests that need them are skipped, and the skip
// says why.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** What the script can fetch. */
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
 * A server of another release. Synchronous, so that a test file can decide while it is collected:
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

/** @internal Split off so that a missing or failing script can be tested. */
export function fetchServer(version: OtherVersion, fetch: string | undefined): OtherServer {
  if (fetch === undefined) {
    return {
      version,
      reason: `skipped: ${version} comes from Debian's archive, which needs apt-get on x86-64 Linux`,
    };
  }
  // One at a time on this machine: test files run side by side, and the script unpacks in place.
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

/** The script, where it can work. */
function findFetch(): string | undefined {
  const possible =
    process.platform === "linux" && process.arch === "x64" && existsSync("/usr/bin/apt-get");
  return possible ? fileURLToPath(new URL("../fetch-server.sh", import.meta.url)) : undefined;
}
