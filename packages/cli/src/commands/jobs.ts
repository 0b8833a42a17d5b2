import { Option } from "commander";
import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { VerbName } from "../jobs/verbs.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway jobs ...`: the task queues, looked at and handled directly in their Redis. */
export function jobsCommand(): CliCommand {
  const jobs = defineCommand("jobs", "Add jobs to task queues, look at them, and mend them");
  for (const verb of [
    addVerb(),
    listVerb(),
    oneJob("show", "Show everything that is known of a job"),
    retryVerb(),
    oneJob("promote", "End a job's delay"),
    oneJob("cancel", "Take a job out of the queue, or ask its handler to stop"),
    oneJob("remove", "Forget a job that is not running"),
    oneQueue("pause", "Take no jobs from a queue until resumed"),
    oneQueue("resume", "End a pause"),
    oneQueue("watch", "Print what happens in a queue, until Ctrl-C"),
    workDemoVerb(),
  ]) {
    jobs.addCommand(verb);
  }
  return jobs;
}

function verbOf(name: VerbName, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...redisKeys, "prefix")
    .runs(async (context) => (await import("../jobs/verbs.ts")).verbs[name](context));
}

function oneQueue(name: "pause" | "resume" | "watch", summary: string): CliCommand {
  return verbOf(name, summary).argument("<queue>", "the queue's name");
}

function oneJob(name: "show" | "promote" | "cancel" | "remove", summary: string): CliCommand {
  return verbOf(name, summary)
    .argument("<queue>", "the queue's name")
    .argument("<id>", "the job's id");
}

function addVerb(): CliCommand {
  return verbOf("add", "Add a job")
    .argument("<queue>", "the queue's name")
    .argument("<name>", "the job's name, which chooses its handler")
    .argument("[data]", "JSON")
    .option("--id <id>", "a name of your own; a second job with it is not added")
    .option("--delay <ms>", "run it so many ms later")
    .option("--priority <number>", "lower runs first")
    .option("--attempts <number>", "how often it is tried")
    .option("--group <name>", "groups take turns")
    .option("--wait", "wait for the job and print its result");
}

function listVerb(): CliCommand {
  return verbOf("list", "List the queues, or the jobs of one")
    .argument("[queue]", "the queue's name; all queues in numbers if it is left out")
    .addOption(
      new Option("--state <state>", "only jobs in this state").choices([
        "waiting",
        "delayed",
        "active",
        "blocked",
        "completed",
        "failed",
      ]),
    )
    .option("--name <name>", "only jobs of this name")
    .option("--search <text>", "only the job of this id, or those with this text in their data")
    .option("--limit <number>", "how many at most", "50");
}

function retryVerb(): CliCommand {
  return verbOf("retry", "Run failed jobs again, with all their attempts")
    .argument("<queue>", "the queue's name")
    .argument("[ids...]", "the jobs' ids")
    .option("--all", "all failed jobs of the queue");
}

function workDemoVerb(): CliCommand {
  return verbOf("work-demo", "Work on a queue with handlers for trying things, until Ctrl-C")
    .requiredOption("--queue <name>", "the queue's name")
    .option("--concurrency <number>", "jobs at the same time", "4")
    .explains(
      `Handlers: echo returns its data; sleep waits data ms (or {"ms":...}) and shows progress; fail throws.
  ropeway jobs add demo sleep 2000 --wait`,
    );
}
