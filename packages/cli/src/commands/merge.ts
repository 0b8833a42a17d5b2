import { Option } from "commander";
import { type CliCommand, defineCommand, offering } from "../cli-command.ts";
import type { VerbName } from "../merge/verbs.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway merge ...`: the merge queue, inspected and managed directly in its Redis. */
export function mergeCommand(): CliCommand {
  const merge = defineCommand("merge", "Push to the merge queue, inspect it, and manage it");
  merge.alias("queue"); // its name in earlier versions
  for (const verb of [
    pushVerb(),
    listVerb(),
    cursor(destinationVerb("peek", "Show what is queued for a merge key and URL")),
    destinationVerb("send-now", "Deliver what is queued for a merge key and URL now"),
    destinationVerb("delete", "Delete what is queued for a merge key and URL"),
    pauseVerb("pause", "Pause everything, or what is queued for a merge key and URL"),
    pauseVerb("resume", "Resume after a pause"),
    verbOf("stats", "Show statistics of the queue"),
    letterFilter(paged(verbOf("letters", "List dead letters, newest first"))),
    paged(
      verbOf("letter", "Show a dead letter and its items").argument("<id>", "the dead letter's id"),
    ),
    letterFilter(manyLetters("replay", "Deliver dead letters again, before newer items")),
    letterFilter(manyLetters("discard", "Delete dead letters for good")),
    endpointsVerb(),
    endpointVerb(),
    attemptFilter(paged(verbOf("attempts", "List the last attempts to deliver, newest first"))),
    paged(verbOf("schedules", "List recurring pushes, soonest first")),
    scheduleVerb(),
    oneSchedule("show-schedule", "Show a recurring push"),
    oneSchedule("unschedule", "Delete a recurring push; items that it has pushed stay"),
    oneSchedule("pause-schedule", "Stop the runs of a recurring push until it is resumed"),
    oneSchedule("resume-schedule", "Resume a paused recurring push at its next time"),
    attemptFilter(verbOf("watch", "Print attempts to deliver as they happen")),
  ]) {
    merge.addCommand(verb);
  }
  return merge;
}

function verbOf(name: VerbName, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...redisKeys, "prefix", "merge.allow")
    .runs(async (context) => (await import("../merge/verbs.ts")).verbs[name](context));
}

function method(): Option {
  const option = new Option("--method <method>", "how the URL is called").default("POST");
  return offering(option, ["POST", "PUT", "PATCH", "DELETE", "GET"]);
}

function pushVerb(): CliCommand {
  return delivery(verbOf("push", "Push one item"))
    .argument("<merge-key>", "items of one key, method and URL are delivered together")
    .argument("<url>", "the endpoint they are delivered to")
    .argument("[body]", "JSON; read from standard input if it is - or left out")
    .addOption(method())
    .option("--ontime <time>", "unix seconds, or from now: +30s, +5m, +2h", "0")
    .addOption(
      new Option("--update <rule>", "whether the time of waiting items is moved")
        .choices(["once", "always"])
        .default("once"),
    )
    .option("--idempotency-key <key>", "a repetition with the same key stores nothing")
    .explains(
      `A merge key that starts with "-" is delivered item by item; write -- before it:
ropeway merge push --ontime +10m -- -job URL '{"n":1}'`,
    );
}

/** How a batch is delivered. */
function delivery(command: CliCommand): CliCommand {
  return command
    .option("--attempts <number>", "the maximum number of delivery attempts")
    .option("--timeout-ms <time>", "how long one attempt may take, such as 15s")
    .option("--header <line...>", 'a header to send along, such as "x-tenant: 7"')
    .option("--callback <url>", "a URL that gets the result")
    .option("--failure-callback <url>", "a URL that gets the reason of a dead letter");
}

function scheduleVerb(): CliCommand {
  return delivery(verbOf("schedule", "Write or replace a recurring push"))
    .argument("<id>", "the schedule's id")
    .argument("<merge-key>", "the merge key of its items")
    .argument("<url>", "the endpoint they are delivered to")
    .argument("[body]", "JSON; read from standard input if it is - or left out")
    .addOption(method())
    .option("--cron <pattern>", "five or six fields, or an alias such as @daily")
    .option("--time-zone <name>", "the time zone of the pattern; UTC if it is left out")
    .option("--every <time>", "the interval instead of a pattern, at least 1s")
    .option("--limit <number>", "the number of runs")
    .option("--max-late-ms <time>", "skip a run that is later than this, such as 5m")
    .option("--immediately", "add a first run immediately")
    .addOption(
      new Option("--update <rule>", "whether the time of waiting items is moved")
        .choices(["once", "always"])
        .default("once"),
    )
    .explains("If the times do not change, the schedule continues as before.");
}

function oneSchedule(name: VerbName, summary: string): CliCommand {
  return verbOf(name, summary).argument("<id>", "the schedule's id");
}

function destinationVerb(name: VerbName, summary: string): CliCommand {
  return verbOf(name, summary)
    .argument("<merge-key>", "the merge key")
    .argument("<url>", "the endpoint")
    .addOption(method());
}

function pauseVerb(name: "pause" | "resume", summary: string): CliCommand {
  return verbOf(name, summary)
    .argument("[merge-key]", "the merge key; everything if it is left out")
    .argument("[url]", "the endpoint")
    .addOption(method())
    .explains(
      'For a merge key that starts with "-" this concerns the items that are queued now, not later ones.',
    );
}

function listVerb(): CliCommand {
  return paged(verbOf("list", "List keys, soonest first")).option(
    "--search <string>",
    "only keys that contain this",
  );
}

function manyLetters(name: "replay" | "discard", summary: string): CliCommand {
  return verbOf(name, summary)
    .argument("[id...]", "the ids of the dead letters")
    .option("--all", "all dead letters");
}

function endpointsVerb(): CliCommand {
  return paged(verbOf("endpoints", "List endpoints and their health, last used first"))
    .option("--enable <url>", "deliver to this endpoint again")
    .option("--disable <url>", "disable this endpoint; batches that come due become dead letters")
    .option("--pause <url>", "hold batches for this endpoint until it is enabled");
}

function endpointVerb(): CliCommand {
  return verbOf("endpoint", "Show or change one endpoint")
    .argument("<action>", "show, enable, disable, pause, limit, rotate-secret or remove-secrets")
    .argument("<url>", "the endpoint")
    .option("--reason <string>", "why it is disabled")
    .option("--rate <number>", "limit: the maximum number of deliveries per second")
    .option("--concurrency <number>", "limit: the maximum number of deliveries at a time")
    .option("--grace-ms <time>", "rotate-secret: how long the previous secret keeps signing")
    .explains("A limit that is left out is removed.");
}

function letterFilter(command: CliCommand): CliCommand {
  return command
    .option("--key <key>", "only of this key, as `merge letters` shows it")
    .option("--url <url>", "only of this endpoint")
    .option("--reason <string>", "only dead letters whose reason contains this string")
    .option("--since <time>", "only dead letters of this time or later, such as 2026-01-31T12:00Z")
    .option("--until <time>", "only dead letters of this time or earlier");
}

function attemptFilter(command: CliCommand): CliCommand {
  const results = ["delivered", "partial", "invalid", "retry", "dead"];
  return command
    .option("--key <key>", "only of this key")
    .option("--url <url>", "only at this endpoint")
    .addOption(new Option("--result <result>", "only with this result").choices(results));
}

function paged(command: CliCommand): CliCommand {
  return cursor(command.option("--limit <number>", "the maximum number of entries", "50"));
}

function cursor(command: CliCommand): CliCommand {
  return command.option("--cursor <cursor>", "the cursor of the previous page");
}
