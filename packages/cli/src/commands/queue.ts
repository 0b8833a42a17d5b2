import { Option } from "commander";
import { type CliCommand, defineCommand, offering } from "../cli-command.ts";
import { redisKeys } from "../settings/table.ts";

type Verbs = typeof import("../queue/verbs.ts");

/** `ropeway queue ...`: the merge queue, looked at and handled directly in its Redis. */
export function queueCommand(): CliCommand {
  const queue = defineCommand("queue", "Push to the merge queue, look at it, and mend it");
  for (const verb of [
    pushVerb(),
    listVerb(),
    targetVerb("peek", "Show what is queued for one merge key and URL"),
    targetVerb("send-now", "Fire what is queued for one merge key and URL now"),
    targetVerb("delete", "Delete what is queued for one merge key and URL"),
    lettersVerb(),
    replayVerb(),
    endpointsVerb(),
    pauseVerb("pause", "Fire nothing, or nothing of one merge key and URL, until resumed"),
    pauseVerb("resume", "End a pause"),
  ]) {
    queue.addCommand(verb);
  }
  return queue;
}

function verbOf(name: string, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...redisKeys, "prefix")
    .runs(async (context) =>
      (await import("../queue/verbs.ts")).verbs[name as keyof Verbs["verbs"]](context),
    );
}

function method(): Option {
  const option = new Option("--method <method>", "how the URL is called").default("POST");
  return offering(option, ["POST", "PUT", "PATCH", "DELETE", "GET"]);
}

function pushVerb(): CliCommand {
  return verbOf("push", "Push one item")
    .argument("<merge-key>", "items of one key, method and URL are delivered together")
    .argument("<url>", "where they are delivered")
    .argument("[body]", "JSON; read from standard input if it is left out")
    .addOption(method())
    .option("--ontime <time>", "unix seconds, or from now: +30s, +5m, +2h", "0")
    .addOption(
      new Option("--update <rule>", "whether the time of what waits is moved")
        .choices(["once", "always"])
        .default("once"),
    )
    .option("--idempotency-key <key>", "a repetition with the same key stores nothing")
    .explains(
      `A merge key that starts with "-" is delivered item by item; write -- before it:
  ropeway queue push --ontime +10m -- -job URL '{"n":1}'`,
    );
}

function targetVerb(name: "peek" | "send-now" | "delete", summary: string): CliCommand {
  return verbOf(name, summary)
    .argument("<merge-key>", "the merge key")
    .argument("<url>", "the URL")
    .addOption(method());
}

function pauseVerb(name: "pause" | "resume", summary: string): CliCommand {
  return verbOf(name, summary)
    .argument("[merge-key]", "the merge key; everything if it is left out")
    .argument("[url]", "the URL")
    .addOption(method())
    .explains(
      'For a merge key that starts with "-" these are the items that are queued now, not those pushed later.',
    );
}

function listVerb(): CliCommand {
  return verbOf("list", "List the keys that wait, soonest first")
    .option("--search <text>", "only keys that contain this")
    .option("--limit <number>", "how many at most", "50");
}

function lettersVerb(): CliCommand {
  return verbOf("letters", "List the dead letters, newest first").option(
    "--limit <number>",
    "how many at most",
    "50",
  );
}

function replayVerb(): CliCommand {
  return verbOf("replay", "Bring dead letters back; they fire now")
    .argument("[id...]", "their ids")
    .option("--all", "all of them");
}

function endpointsVerb(): CliCommand {
  return verbOf("endpoints", "List the receivers and their health, last used first")
    .option("--enable <url>", "call this one again")
    .option("--disable <url>", "call this one no more; what comes due for it becomes a dead letter")
    .option("--pause <url>", "let what comes due for this one wait until it is enabled")
    .option("--limit <number>", "how many at most", "50");
}
