/** What `ropeway sync ...` does. */
import { readFileSync } from "node:fs";
import { ConnectFailedError, RopewayError } from "@ropeway/core";
import { check, type SyncOptions, type SyncProgress, SyncTask, verify } from "@ropeway/sync";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { namingFlags } from "../refused-option.ts";
import { addressesOf } from "../secret-address.ts";
import { Display, jsonLine } from "./display.ts";

const FLAGS = { from: "--from", to: "--to", mode: "--mode", name: "--name" };

interface Ends {
  readonly from: string;
  readonly to: string;
}

async function run(context: Context): Promise<number> {
  const { output, signal } = context;
  const given = await optionsOf(context);
  const both = { from: String(given.from), to: String(given.to) };
  const task = await namingFlags(FLAGS, async () => new SyncTask(given));
  const display = new Display(output);
  task.on("progress", (progress) => display.show(progress));
  task.on("error", () => {}); // finished rejects with it
  task.on("discarded", ({ command, key, db, error }) =>
    output.warn(`${command} ${JSON.stringify(key)} in database ${db} failed: ${error}`),
  );
  const stop = () => void task.close();
  signal.addEventListener("abort", stop, { once: true });
  try {
    if (signal.aborted) return 0;
    await reaching(both, () => task.start());
    output.note(`task ${task.name}, epoch ${task.progress().epoch}`);
    const progress = await reaching(both, () => task.finished);
    display.end();
    output.result({ ...jsonLine(progress), ...summaryOf(task, progress) }, () =>
      output.line(sentence(task, progress)),
    );
    return 0;
  } catch (error) {
    display.end();
    if (signal.aborted && task.progress().phase !== "BROKEN") return 0;
    throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    await task.close();
  }
}

function summaryOf(task: SyncTask, progress: SyncProgress): object {
  const { commands, reasons, errors, partialResyncs, fullResyncs, lagBytes } = progress;
  return {
    name: task.name,
    done: true,
    commands,
    reasons,
    errors,
    partialResyncs,
    fullResyncs,
    lagBytes,
  };
}

function sentence(task: SyncTask, { phase, keys, commands, errors, offset }: SyncProgress): string {
  const how = phase === "FINISH" ? "finished" : "stopped at its checkpoint";
  return `task ${task.name} ${how}: ${keys} keys and ${commands} commands written, ${errors} failed, offset ${offset}`;
}

async function examine(context: Context): Promise<number> {
  const { from, to } = await ends(context);
  const report = await namingFlags(FLAGS, () => check({ from, to }));
  context.output.result(report, () => {
    for (const { what, level, message, advice } of report.findings) {
      const mark = { ok: "ok      ", warning: "warning ", problem: "problem " }[level];
      context.output.paragraph(`${mark} `, `${what}: ${message}`);
      if (advice !== "") context.output.paragraph(" ".repeat(11), advice);
    }
    context.output.line(report.ok ? "No problems found." : "Solve the problems first.");
  });
  return report.ok ? 0 : 1;
}

async function compare(context: Context): Promise<number> {
  const { options, output, signal } = context;
  const given = await optionsOf(context);
  // The options of a task are checked as its run does, also those that change nothing here.
  await namingFlags(FLAGS, async () => new SyncTask(given));
  const { name, dbMap, filter, rename, ttlShiftMs } = given;
  const keys = { dbMap, filter, rename, ...(ttlShiftMs === undefined ? {} : { ttlShiftMs }) };
  const both = { ...(await ends(context)), ...(name === undefined ? {} : { name }) };
  const report = await reaching(both, () =>
    verify({ ...both, ...keys, repair: options.repair === true, signal }),
  );
  output.result(report, () => {
    for (const { key, db, reason, source, target, repaired } of report.differences) {
      const end = repaired ? "  repaired" : "";
      output.line(
        `db ${db}  ${JSON.stringify(key)}  ${reason}  source: ${source}  target: ${target}${end}`,
      );
    }
    const { keys, different, repaired, undecided } = report;
    output.line(
      `${keys} keys compared: ${different} differ, ${repaired} repaired, ${undecided} undecided`,
    );
    if (report.behind) {
      output.line(
        "The task is behind the source, so nothing is repaired. Start sync run, and verify again when it has caught up.",
      );
    }
  });
  return report.different > report.repaired || report.undecided > 0 ? 1 : 0;
}

/** Does the work; a server that cannot be reached is reported with the flag that names it. */
async function reaching<T>(ends: Ends, work: () => Promise<T>): Promise<T> {
  try {
    return await namingFlags(FLAGS, work);
  } catch (error) {
    if (!(error instanceof ConnectFailedError)) throw error;
    const { code, message, details } = error;
    const advice = `check that server, or change ${flagOf(ends, String(details.address))}`;
    const context = { cause: error, details: { ...details, advice } };
    throw new RopewayError(code, `${message.replace(/\.$/, "")}; ${advice}`, context);
  }
}

/** The flag whose URL has this address; both, if that is not certain. */
function flagOf({ from, to }: Ends, address: string): string {
  const host = address.replace(/:\d+$/, "");
  const [inFrom, inTo] = [from, to].map((url) => url.includes(host));
  if (inFrom === inTo) {
    if (from.includes(address) !== to.includes(address)) {
      return from.includes(address) ? "--from" : "--to";
    }
    return "--from or --to";
  }
  return inFrom ? "--from" : "--to";
}

async function ends(context: Context): Promise<Ends> {
  const { from = "", to = "" } = await addressesOf(context, ["from", "to"]);
  return { from, to };
}

async function optionsOf(context: Context): Promise<SyncOptions> {
  const { options } = context;
  const more = options.options === undefined ? {} : readOptions(String(options.options));
  return {
    ...more,
    ...(await ends(context)),
    mode: options.mode as NonNullable<SyncOptions["mode"]>,
    once: options.once === true,
    restart: options.restart === true,
    scan: options.scan === true,
    ...(options.name === undefined ? {} : { name: String(options.name) }),
  };
}

function readOptions(file: string): Partial<SyncOptions> {
  let options: unknown;
  try {
    options = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    throw new UsageError(`--options ${file} cannot be read: ${(error as Error).message}`);
  }
  if (typeof options !== "object" || options === null || Array.isArray(options)) {
    throw new UsageError(`--options ${file} must be a JSON object such as {"lanes": 4}`);
  }
  compilePatterns(options);
  return options;
}

/** JSON has no regular expressions, so they are strings there. What is no string is left to the checks of SyncTask. */
function compilePatterns({ filter }: { filter?: unknown }): void {
  for (const name of ["accept", "refuse"]) {
    const rule = (filter as Record<string, { patterns?: unknown } | null> | null)?.[name];
    if (!Array.isArray(rule?.patterns)) continue;
    rule.patterns = rule.patterns.map((pattern: unknown) => {
      if (typeof pattern !== "string") return pattern;
      try {
        return new RegExp(pattern);
      } catch (error) {
        const where = `filter.${name}.patterns in --options has ${JSON.stringify(pattern)}`;
        throw new UsageError(`${where}: ${(error as Error).message}`);
      }
    });
  }
}

export const verbs: Readonly<Record<VerbName, (context: Context) => Promise<number>>> = {
  run,
  check: examine,
  verify: compare,
};

/** The verbs of `ropeway sync`. */
export type VerbName = "run" | "check" | "verify";
