import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { Context } from "../context.ts";

/** `ropeway rdb ...`: snapshot files, without a server. */
export function rdbCommand(): CliCommand {
  const rdb = defineCommand("rdb", "Inspect RDB files of Redis and Valkey");
  rdb.addCommand(inspectVerb());
  rdb.addCommand(toJsonVerb());
  return rdb;
}

function inspectVerb(): CliCommand {
  return defineCommand("inspect", "Print what an RDB file contains and what takes the most memory")
    .argument("<file>", "the RDB file, such as dump.rdb")
    .option("--top <number>", "how many keys and prefixes are listed", "20")
    .option("--delimiter <text>", "the string that ends a prefix of a key", ":")
    .option("--depth <number>", "how many delimiters a prefix contains", "1")
    .explains(
      "Sizes are estimates of the memory that a server needs. The file may be of any size: the command itself needs little memory.",
    )
    .runs((context: Context) => run("inspect", context));
}

function toJsonVerb(): CliCommand {
  return defineCommand("to-json", "Print an RDB file as JSON lines, one per key")
    .argument("<file>", "the RDB file, such as dump.rdb")
    .explains(
      "The format is described in docs/reference/wire/rdb.md. Bytes that are not UTF-8 are base64.",
    )
    .runs((context: Context) => run("to-json", context));
}

async function run(verb: "inspect" | "to-json", context: Context): Promise<void> {
  await (await import("../rdb/verbs.ts")).verbs[verb](context);
}
