import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { FilesVerb } from "../kit/files-verbs.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway files ...`: files for many receivers, through Redis. */
export function filesCommand(): CliCommand {
  const files = defineCommand("files", "Send files to many receivers through Redis");
  files.addCommand(
    verbOf("send", "Send files and wait until every receiver has them")
      .argument("<channel>", "the channel's name")
      .argument("<paths...>", "the files")
      .requiredOption("--receivers <names>", "the receivers, separated by commas")
      .option("--limit <bytes>", "how much of a file may be in Redis at a time")
      .option("--lease <time>", "how long a receiver may be away, such as 10m")
      .option("--end", "end the channel afterwards: receivers then return"),
  );
  files.addCommand(
    verbOf("receive", "Receive files into a folder until the channel ends")
      .argument("<channel>", "the channel's name")
      .argument("<receiver>", "the name of this receiver")
      .argument("[folder]", "where the files go; the current folder if it is left out")
      .option("--files <number>", "stop after this number of files"),
  );
  files.addCommand(
    verbOf("end", "End a channel: receivers return when they have all files").argument(
      "<channel>",
      "the channel's name",
    ),
  );
  files.addCommand(
    verbOf("list", "List the transfers under way")
      .option("--limit <number>", "the approximate maximum number of entries", "50")
      .option("--cursor <cursor>", "the cursor of the previous page"),
  );
  return files;
}

function verbOf(name: FilesVerb, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...redisKeys)
    .option("--key-prefix <prefix>", "the prefix of the keys")
    .runs(async (context) => (await import("../kit/files-verbs.ts")).verbs[name](context));
}
