import { type CliCommand, defineCommand } from "../cli-command.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway semaphore ...`: semaphores, looked at directly in their Redis. */
export function semaphoreCommand(): CliCommand {
  const semaphore = defineCommand("semaphore", "List the semaphores in use");
  semaphore.addCommand(
    defineCommand("list", "List the semaphores of which a process holds a permit")
      .uses(...redisKeys)
      .option("--key-prefix <prefix>", "the prefix of the keys")
      .option("--search <text>", "only names that contain this string")
      .option("--limit <number>", "the approximate maximum number of entries", "50")
      .option("--cursor <cursor>", "the cursor of the previous page")
      .runs(async (context) => (await import("../kit/semaphore-verbs.ts")).list(context)),
  );
  return semaphore;
}
