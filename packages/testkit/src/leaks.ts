// What a test file leaves behind, found by comparing its end with its beginning:
//
// - things the testkit started that nobody closed
// - clients that were still connected when their Redis was closed
// - whatever else keeps the process alive: sockets, listeners, timers, children
//
// The last is Node's own census, `process.getActiveResourcesInfo()`: it costs nothing while tests
// run, and what a library unref'd on purpose is not in it. Work that is just ending (a socket
// that is closing, the test runner's own timers) is waited for, so only a leak costs that wait.
import type { Socket } from "node:net";
import { TestkitError } from "./errors.ts";
import { eventually } from "./eventually.ts";
import { stillOpen, takeFindings } from "./registry.ts";
import type { Argument, Reply } from "./resp.ts";

const SETTLE_WITHIN_MS = 2000;

/** Remembers what is open now; `check()` fails if there is more by then. */
export class LeakWatch {
  readonly #resources: ReadonlyMap<string, number> = census();
  readonly #handles: ReadonlySet<unknown> = new Set(activeHandles());

  /** Closes what was left open and throws a `LEAK` that names it all; passes if there is nothing. */
  async check(): Promise<void> {
    const leaks: string[] = [];
    for (const thing of stillOpen()) {
      leaks.push(`${thing.describe()} was not closed`);
      await thing.close();
    }
    leaks.push(...takeFindings(), ...(await this.#leftResources()));
    if (leaks.length === 0) return;
    throw new TestkitError("LEAK", `left behind by this test file:\n  ${leaks.join("\n  ")}`);
  }

  async #leftResources(): Promise<string[]> {
    let left: string[] = [];
    await eventually(
      () => {
        left = this.#surplus();
        if (left.length > 0) throw new Error("not settled");
      },
      { withinMs: SETTLE_WITHIN_MS },
    ).catch(() => left.push(...this.#newSockets()));
    return left;
  }

  #surplus(): string[] {
    return [...census()]
      .map(([kind, count]): [string, number] => [kind, count - (this.#resources.get(kind) ?? 0)])
      .filter(([, more]) => more > 0)
      .map(([kind, more]) => `${more} more ${kind} than at its start keep the process alive`);
  }

  #newSockets(): string[] {
    return activeHandles()
      .filter((handle) => !this.#handles.has(handle))
      .map((handle) => handle as Partial<Socket>)
      .filter(({ remotePort }) => remotePort !== undefined)
      .map(({ localPort, remoteAddress, remotePort }) => {
        return `a socket from port ${localPort} to ${remoteAddress}:${remotePort}`;
      });
  }
}

function census(): Map<string, number> {
  const counts = new Map<string, number>();
  for (const kind of process.getActiveResourcesInfo()) {
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return counts;
}

// Not documented, so only used to say more about a leak that was found without it.
function activeHandles(): unknown[] {
  const { _getActiveHandles } = process as unknown as { _getActiveHandles?: () => unknown[] };
  return _getActiveHandles?.call(process) ?? [];
}

/** Fails with a `LEAK` if the server has a key that begins with `prefix`. */
export async function expectNoKeys(
  server: { command(...args: Argument[]): Promise<Reply> },
  prefix: string,
): Promise<void> {
  const pattern = `${prefix.replace(/[*?[\]\\^]/g, "\\$&")}*`;
  const found: Reply[] = [];
  let cursor: Reply = "0";
  do {
    const page = await server.command("SCAN", String(cursor), "MATCH", pattern, "COUNT", 1000);
    const [next, keys] = page as [string, string[]];
    found.push(...keys);
    cursor = next;
  } while (cursor !== "0");
  if (found.length === 0) return;
  const shown = found.slice(0, 20).join(", ");
  throw new TestkitError("LEAK", `${found.length} keys begin with ${prefix}: ${shown}`);
}
