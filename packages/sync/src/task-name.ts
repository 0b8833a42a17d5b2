/** The default name of a task. */
import { createHash } from "node:crypto";
import { parseEndpoint, showEndpoint } from "@ropeway/core";
import type { SyncOptions } from "./options.ts";

/** Derives the name from both ends and the mode, without passwords, so the same task always has the same name. */
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
