import { type CliCommand, defineCommand } from "../cli-command.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway semaphore ...`: semaphores, inspected and resized directly in their Redis. */
export function semaphoreCommand(): CliCommand {
  const semaphore = defineCommand(
    "semaphore",
    "List the semaphores in use, show one, and set its limit",
  );
  semaphore.addCommand(
    defineCommand("list", "List the semaphores of which a process holds a permit")
      .uses(...redisKeys)
      .option("--key-prefix <prefix>", "the prefix of the keys")
      .option("--search <text>", "only names that contain this string")
      .option("--limit <number>", "the approximate maximum number of entries", "50")
      .option("--cursor <cursor>", "the cursor of the previous page")
      .runs(async (context) => (await import("../kit/semaphore-verbs.ts")).list(context)),
  );
  semaphore.addCommand(
    defineCommand("show", "Show how many processes hold a permit of a semaphore and wait for one")
      .uses(...redisKeys)
      .argument("<name>", "the semaphore's name")
      .option("--key-prefix <prefix>", "the prefix of the keys")
      .runs(async (context) => (await import("../kit/semaphore-verbs.ts")).showOne(context)),
  );
  semaphore.addCommand(
    defineCommand("resize", "Set the limit of a semaphore for all processes")
      .uses(...redisKeys)
      .argument("<name>", "the semaphore's name")
      .argument("<limit>", "the limit; none: every process uses its own limit again")
      .option("--key-prefix <prefix>", "the prefix of the keys")
      .runs(async (context) => (await import("../kit/semaphore-verbs.ts")).resize(context)),
  );
  return semaphore;
}
