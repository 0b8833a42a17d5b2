import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { LockVerb } from "../kit/lock-verbs.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway lock ...`: locks, inspected and broken directly in their Redis. */
export function lockCommand(): CliCommand {
  const lock = defineCommand("lock", "List the locks that are held, and break one");
  lock.addCommand(
    verbOf("list", "List the locks that are held")
      .option("--search <text>", "only names that contain this string")
      .option("--limit <number>", "the approximate maximum number of entries", "50")
      .option("--cursor <cursor>", "the cursor of the previous page"),
  );
  lock.addCommand(verbOf("show", "Show who holds a lock").argument("<name>", "the lock's name"));
  lock.addCommand(
    verbOf("break", "Take a lock from its holder and hand it to the next waiter")
      .argument("<name>", "the lock's name")
      .option("--token <token>", "break it only if this token holds it")
      .explains(
        "The holder learns of it with its next renewal. Until then it may still work: break a lock only if its holder is gone, or if what it protects checks fences.",
      ),
  );
  return lock;
}

function verbOf(name: LockVerb, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...redisKeys)
    .option("--key-prefix <prefix>", "the prefix of the keys")
    .runs(async (context) => (await import("../kit/lock-verbs.ts")).verbs[name](context));
}
