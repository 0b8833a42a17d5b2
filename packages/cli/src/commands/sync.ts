import { Option } from "commander";
import { type CliCommand, defineCommand } from "../cli-command.ts";
import { ADDRESS_HELP } from "../secret-address.ts";
import type { VerbName } from "../sync/verbs.ts";

/** `ropeway sync ...`: moves a live Redis to another one, checks before and compares afterwards. */
export function syncCommand(): CliCommand {
  const sync = defineCommand("sync", "Move a live Redis to another one, exactly once");
  for (const verb of [runVerb(), checkVerb(), verifyVerb()]) sync.addCommand(verb);
  return sync;
}

function verbOf(name: VerbName, summary: string): CliCommand {
  return defineCommand(name, summary)
    .requiredOption(
      "--from <url>",
      "the source: redis://, rediss://, sentinel://, cluster://, file:dump.rdb, https://",
    )
    .requiredOption(
      "--to <url>",
      "the target: redis://, rediss://, sentinel://, cluster://; run also: file:dump.rdb, .aof, .jsonl",
    )
    .runs(async (context) => (await import("../sync/verbs.ts")).verbs[name](context));
}

function runVerb(): CliCommand {
  return verbOf("run", "Copy the data, then follow the changes until Ctrl-C")
    .addOption(
      new Option(
        "--mode <mode>",
        "everything and then changes, only what is there, or only changes",
      )
        .choices(["total", "stock", "increment"])
        .default("total"),
    )
    .option("--name <task>", "the name of the checkpoint; derived from both ends by default")
    .option("--once", "exit when the target has everything the source had")
    .option("--restart", "start from the beginning instead of resuming")
    .option("--scan", "read with SCAN and DUMP, for servers that refuse PSYNC (mode stock)")
    .option(
      "--options <file>",
      "a JSON file with more options of SyncTask, such as filter and dbMap",
    )
    .explains(
      `The same command again resumes from the checkpoint in the target, also after kill -9.
Ctrl-C writes the checkpoint and exits 0.
${ADDRESS_HELP}`,
    );
}

function checkVerb(): CliCommand {
  return verbOf("check", "Check both ends before anything is written").explains(
    `Exits 0 if everything is fine, and 1 if there are problems; each comes with what to do.
${ADDRESS_HELP}`,
  );
}

function verifyVerb(): CliCommand {
  return verbOf("verify", "Compare both ends key by key, also while a task is running")
    .option("--name <task>", "the task that copies; derived from both ends by default")
    .option("--repair", "write keys that differ as the source has them")
    .option(
      "--options <file>",
      "the JSON file of the task: its filter, rename and dbMap say which keys are compared",
    )
    .explains(
      `Exits 0 if both are equal, and 1 if they differ; lists every differing key with why.
${ADDRESS_HELP}`,
    );
}
