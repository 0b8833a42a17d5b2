/**
 * Jobs and events as people read them: a name and a value a line, and what is longer than a line below
 * it, set in.
 *
 *   state        failed
 *   data         {"to":"ann"}
 *   failure      Error: no such mailbox (code EBOX)
 *                  at send (mail.js:7:9)
 */
import { show } from "@ropeway/core/internal";
import type { JobFailure, JobView, QueueEvent } from "@ropeway/jobs";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { payloadOf } from "../terminal/input.ts";
import { labelOf } from "../terminal/label.ts";
import { isoTime } from "../terminal/time.ts";

const NAME_WIDTH = 12;
/** JSON that is longer is spread over lines. */
const LONG = 100;

/** All fields of a job. */
export function jobText(job: JobView): string {
  return Object.entries(job)
    .filter(([name, value]) => name !== "failures" || (value as unknown[]).length > 1)
    .map(([name, value]) => below(`${labelOf(name).padEnd(NAME_WIDTH)} `, fieldText(name, value)))
    .join("\n");
}

/** One thing that happened. */
export function eventText(event: QueueEvent): string {
  const { at, event: what, id, name, ...rest } = event;
  const { error, ...others } = rest as { readonly error?: JobFailure };
  const details = Object.keys(others).length === 0 ? [] : [JSON.stringify(others)];
  const failure = error === undefined ? [] : [failureLine(error)];
  const head = [timeText(at), what.padEnd(9), id, name].join("  ");
  return [head, ...details, ...failure].join("  ");
}

/** The error on one line; `jobs show` has the rest. */
function failureLine({ name = "Error", message, code }: JobFailure): string {
  const [first = ""] = String(message).split("\n", 1);
  return `${name}: ${first}${code === undefined ? "" : ` (code ${code})`}`;
}

/** A time of Redis. */
export function timeText(ms: number): string {
  return isoTime(ms);
}

function fieldText(name: string, value: unknown): string {
  if (name.endsWith("At") || name === "activeSince") return timeText(Number(value));
  if (name === "failure") return failureText(value as JobFailure);
  if (name === "failures") return (value as JobFailure[]).map(failureText).join("\n");
  if (name === "logs") return (value as readonly string[]).join("\n");
  if (typeof value === "string") return value;
  const json = JSON.stringify(value) ?? "";
  return json.length > LONG ? JSON.stringify(value, null, 2) : json;
}

/** The error and, below it, where it came from. */
function failureText(failure: JobFailure): string {
  const { name, message, code, stack = "" } = failure;
  if (message === undefined) return JSON.stringify(failure);
  const head = `${name ?? "Error"}: ${message}${code === undefined ? "" : ` (code ${code})`}`;
  const frames = stack.split("\n").filter((line) => /^\s+at /.test(line));
  return [head, ...frames.map((line) => `  ${line.trim()}`)].join("\n");
}

/** The text after its head; further lines are indented below it. */
function below(head: string, text: string): string {
  return `${head}${text.replaceAll("\n", `\n${" ".repeat(head.length)}`)}`.trimEnd();
}

/** A job's data: JSON of the command line or of standard input. */
export async function dataOf(context: Context, given: string): Promise<unknown> {
  const text = await payloadOf(context, given, "the data");
  try {
    return JSON.parse(text);
  } catch {
    throw new UsageError(`data is ${show(text)}, but must be JSON; write a string as '"text"'`);
  }
}
