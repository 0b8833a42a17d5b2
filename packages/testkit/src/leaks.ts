// Finds what a test file left open by comparing its end with its beginning:
//
// - servers, proxies and scripts of the testkit that were not closed
// - clients that were still connected when their Redis was closed
// - other resources that keep the process alive: sockets, listeners, timers, children
//
// The last come from `process.getActiveResourcesInfo()`, which costs nothing while tests run and
// leaves out unref'd resources. The check waits for resources that are just closing (a socket, the
// test runner's timers), so only a leak costs the full wait.
import type { Socket } from "node:net";
import { TestkitError } from "./errors.ts";
import { eventually } from "./eventually.ts";
import { stillOpen, takeFindings } from "./registry.ts";
import type { Argument, Reply } from "./resp.ts";

const SETTLE_WITHIN_MS = 2000;

/** Records the open resources. `check()` fails if there are more by then. */
export class LeakWatch {
  readonly #resources: ReadonlyMap<string, number> = census();
  readonly #handles: ReadonlySet<unknown> = new Set(activeHandles());

  /** Closes everything that was left open. Throws a `LEAK` that lists it, if there is any. */
  async check(): Promise<void> {
    const leaks: string[] = [];
    for (const thing of stillOpen()) {
      leaks.push(`${thing.describe()} was not closed`);
      await thing.close();
    }
    leaks.push(...takeFindings(), ...(await this.#leftResources()));
    if (leaks.length === 0) return;
    throw new TestkitError("LEAK", `left open by this test file:\n  ${leaks.join("\n  ")}`);
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

// Node does not document this function, so it only adds details to a leak found without it.
function activeHandles(): unknown[] {
  const { _getActiveHandles } = process as unknown as { _getActiveHandles?: () => unknown[] };
  return _getActiveHandles?.call(process) ?? [];
}

/** Throws a `LEAK` if the server has a key that begins with `prefix`. */
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
