/** The name of a task that was given none. */
import { createHash } from "node:crypto";
import { parseEndpoint, showEndpoint } from "@ropeway/core";
import type { SyncOptions } from "./options.ts";

/** The same task has the same name every time: from both ends and the mode, without passwords. */
export function taskName({ from, to, mode }: Pick<SyncOptions, "from" | "to" | "mode">): string {
  const identity = [from, to].map((url) =>
    /^[\w+-]+:\/\//.test(url) && !/^(https?|file):/.test(url)
      ? showEndpoint(parseEndpoint(url))
      : url,
  );
  const digest = createHash("sha256")
    .update(JSON.stringify([...identity, mode ?? "total"]))
    .digest("hex");
  return `sync-${digest.slice(0, 12)}`;
}
