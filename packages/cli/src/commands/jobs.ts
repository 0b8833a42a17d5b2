import { Option } from "commander";
import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { VerbName } from "../jobs/verbs.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway jobs ...`: the task queues, inspected and managed directly in their Redis. */
export function jobsCommand(): CliCommand {
  const jobs = defineCommand("jobs", "Add jobs to task queues, inspect and manage them");
  for (const verb of [
    addVerb(),
    listVerb(),
    verbOf("show", "Show all details of a job, or of a queue")
      .argument("<queue>", "the queue's name")
      .argument("[id]", "the job's id; the queue itself if it is left out"),
    oneJob("children", "List the children of a job and what became of them"),
    oneJob("result", "Wait for a job and print its result").option(
      "--timeout <time>",
      "how long to wait, such as 30s; without a limit if it is left out",
    ),
    retryVerb(),
    updateVerb(),
    oneJob("promote", "Run a delayed job now"),
    oneJob("cancel", "Take a job out of the queue, or ask its handler to stop"),
    oneJob("remove", "Remove a job that is not running"),
    oneQueue("pause", "Pause a queue: workers take no jobs until it is resumed"),
    oneQueue("resume", "Resume after a pause"),
    drainVerb(),
    obliterateVerb(),
    oneQueue("free-key", "Free a dedupe key").argument("<key>", "the dedupe key"),
    oneQueue("workers", "List the workers of a queue"),
    oneQueue("rates", "Show how many jobs ended in each of the last minutes").option(
      "--minutes <number>",
      "the number of minutes, at most 1440",
      "60",
    ),
    limitsVerb(),
    oneQueue("schedules", "List the recurring jobs of a queue"),
    scheduleVerb(),
    oneQueue("unschedule", "Remove a recurring job").argument("<id>", "the schedule's id"),
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

function oneQueue(name: VerbName, summary: string): CliCommand {
  return verbOf(name, summary).argument("<queue>", "the queue's name");
}

function oneJob(name: VerbName, summary: string): CliCommand {
  return verbOf(name, summary)
    .argument("<queue>", "the queue's name")
    .argument("<id>", "the job's id");
}

function addVerb(): CliCommand {
  return verbOf("add", "Add a job")
    .argument("<queue>", "the queue's name")
    .argument("<name>", "the job's name, which chooses its handler")
    .argument("[data]", "JSON; - reads standard input")
    .option("--id <id>", "an id of your own; a second job with it is not added")
    .option("--delay <time>", "run it this much later, such as 5s; milliseconds without a unit")
    .option("--priority <number>", "lower runs first")
    .option("--attempts <number>", "the number of attempts")
    .option("--group <name>", "groups take turns")
    .option("--wait", "wait for the job and print its result");
}

function listVerb(): CliCommand {
  return verbOf("list", "List the queues, or the jobs of one")
    .argument("[queue]", "the queue's name; all queues if it is left out")
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
    .option("--group <name>", "only jobs of this group")
    .option("--search <text>", "only the job with this id, or jobs with this string in their data")
    .option("--limit <number>", "the maximum number of jobs to print", "50")
    .option("--cursor <cursor>", "the cursor of the previous page");
}

const STATES = ["waiting", "delayed", "blocked", "completed", "failed"];

function drainVerb(): CliCommand {
  return oneQueue("drain", "Remove the jobs of a queue by state; running jobs stay")
    .addOption(
      new Option("--state <states...>", "the states; waiting and delayed if none is given").choices(
        STATES,
      ),
    )
    .option(
      "--older-than <time>",
      "only jobs that were added, or have ended, at least this long ago, such as 7d",
    );
}

function obliterateVerb(): CliCommand {
  return oneQueue("obliterate", "Delete a queue with all its jobs")
    .option("--yes", "confirm it")
    .option("--force", "delete it even while jobs are running");
}

function limitsVerb(): CliCommand {
  return oneQueue("limits", "Show or set the limits that all workers of a queue obey")
    .option("--concurrency <number>", "jobs running at the same time, or none")
    .option("--rate <jobs/time>", "such as 500/1s, or none")
    .option("--group-concurrency <number>", "jobs of one group running at the same time, or none")
    .option("--group-rate <jobs/time>", "the rate of each group, or none");
}

function scheduleVerb(): CliCommand {
  return oneQueue("schedule", "Write or replace a recurring job")
    .argument("<id>", "the schedule's id")
    .argument("<name>", "the job's name, which chooses its handler")
    .argument("[data]", "JSON; - reads standard input")
    .option("--cron <pattern>", "five or six fields, or an alias such as @daily")
    .option("--time-zone <name>", "the time zone of the pattern; UTC if it is left out")
    .option("--every <time>", "the interval instead of a pattern, such as 15m")
    .option("--limit <number>", "the number of runs")
    .option("--immediately", "add a first run immediately")
    .option("--no-overlap", "skip a run while the one before has not ended");
}

function updateVerb(): CliCommand {
  return oneJob("update", "Change the data, priority or delay of a job that has not started")
    .option("--data <json>", "the new data; - reads standard input")
    .option("--priority <number>", "lower runs first")
    .option("--delay <time>", "run it this much later, such as 5s; 0 for now");
}

function retryVerb(): CliCommand {
  return verbOf("retry", "Run failed jobs again, with all their attempts")
    .argument("<queue>", "the queue's name")
    .argument("[ids...]", "the jobs' ids")
    .option("--all", "all failed jobs of the queue")
    .option("--name <name>", "all failed jobs of this name")
    .option("--group <name>", "all failed jobs of this group")
    .option("--search <text>", "all failed jobs with this string in their data");
}

function workDemoVerb(): CliCommand {
  return verbOf("work-demo", "Run a demo worker on a queue, until Ctrl-C")
    .requiredOption("--queue <name>", "the queue's name")
    .option("--concurrency <number>", "jobs at the same time", "4")
    .explains(
      `Handlers: echo returns its data; sleep waits data ms (or {"ms":...}) and shows progress; fail throws.
  ropeway jobs add demo sleep 2000 --wait`,
    );
}
