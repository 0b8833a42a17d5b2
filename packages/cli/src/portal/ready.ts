/** What `up` and `portal` print once they serve; the line `ropeway ready URL` is for scripts. */
import type { PortalStart } from "@ropeway/portal";
import type { Context } from "../context.ts";
import { type Cell, paint } from "../terminal/colour.ts";

/** What runs. */
export interface Running {
  readonly portal: PortalStart;
  /** The Redis, as it may be shown. */
  readonly redis: string;
  readonly merge: { readonly url: string; readonly allow: readonly string[] } | undefined;
  /** The Redis that programs of the user can use, if this process started it. */
  readonly exportUrl?: string | undefined;
  /** The node that runs in this process. */
  readonly node?: string;
  /** Commands to try next. */
  readonly tries?: readonly string[];
}

/** Prints the lines; the last one is `ropeway ready URL`, with --json one object instead of all. */
export function sayReady({ output }: Context, running: Running): void {
  const { portal, redis, merge, node, exportUrl, tries = [] } = running;
  const { url, firstAdmin } = portal;
  output.result({ ready: true, url, redis, merge: merge?.url, node, firstAdmin }, () => {
    const say = (what: string, ...cells: Cell[]) => output.line(`  ${what.padEnd(8)} `, ...cells);
    output.line("");
    say("portal", paint("cyan", url));
    say("login", loginLine(firstAdmin));
    if (merge !== undefined) {
      say("merge", paint("cyan", merge.url), `   (delivers to ${reach(merge.allow)})`);
    }
    say("redis", redis);
    if (exportUrl !== undefined) say("", `export REDIS_URL=${exportUrl}`);
    if (node !== undefined) say("node", node);
    for (const [index, command] of tries.entries()) say(index === 0 ? "try" : "", command);
    output.line("");
    output.line(`ropeway ready ${url}`);
  });
}

function loginLine(firstAdmin: PortalStart["firstAdmin"]): string {
  if (firstAdmin === undefined) return "use your existing account";
  const { username, password } = firstAdmin;
  return password === undefined
    ? `${username}, with the password you set`
    : `${username} / ${password}   (shown only once)`;
}

function reach(allow: readonly string[]): string {
  return ["public addresses", ...allow].join(", ");
}
