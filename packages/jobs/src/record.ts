/**
 * The string that Redis stores for a job:
 *
 *   1763246400123;0;0;{"a":3,"g":"acme"}\nsend-mail\n{"to":"ann@example.org"}
 *   |             | | |                    |          `- data, JSON, or nothing for undefined
 *   |             | | |                    `- name, one line
 *   |             | | `- options that differ from the defaults, JSON on one line, or nothing
 *   |             | `- how often its lease expired
 *   |             `- attempts that have ended
 *   `- added at, ms of the Redis clock; the store prepends it, add.lua corrects it
 *
 * One field of one hash per job costs less than half the memory of a key per job, and a job with default
 * options carries none. Lua reads the first line only.
 */
import { reasonOf } from "@ropeway/core/internal";
import { InvalidDataError } from "./errors.ts";
import { checkName } from "./name.ts";

/** Options inside a record; the short names are part of the wire. */
export interface RecordOptions {
  /** attempts */
  readonly a?: number;
  /** backoff: kind or name, delay ms, longest ms, jitter */
  readonly b?: readonly [string, number, number, number];
  /** priority */
  readonly p?: number;
  /** group */
  readonly g?: string;
  /** timeout ms */
  readonly t?: number;
  /** keep: completed count and age ms, failed count and age ms; count -1 is any number, age 0 is for ever */
  readonly k?: readonly [number, number, number, number];
  /** dedupe key */
  readonly d?: string;
  /** parent's id */
  readonly f?: string;
  /** parent's queue, if that is another one */
  readonly q?: string;
  /** number of children */
  readonly n?: number;
  /** token of the flow; without it, children of an earlier job with the same id would count as this job's */
  readonly y?: string;
  /** effect of a failure on the parent, if it does not fail the parent: 1 nothing, 2 the child is deleted */
  readonly c?: 1 | 2;
  /** schedule that made it */
  readonly s?: string;
  /** W3C traceparent */
  readonly x?: string;
}

/** A decoded record. */
export interface JobRecord {
  readonly addedAt: number;
  readonly attempts: number;
  readonly stalls: number;
  readonly options: RecordOptions;
  readonly name: string;
  /** JSON string; empty for undefined. An attempt releases it after decoding. */
  json: string;
}

/** Encodes the part of a new job's record that follows the time of adding. */
export function encodeRecord(name: string, data: unknown, options: RecordOptions): string {
  checkName("job name", name);
  return `;0;0;${encodeOptions(options)}\n${name}\n${encodeData(data, name)}`;
}

/** The JSON string of a job's data or result; empty for undefined. */
export function encodeData(data: unknown, name: string): string {
  if (data === undefined) return "";
  let json: string | undefined;
  try {
    json = JSON.stringify(data);
  } catch (cause) {
    throw new InvalidDataError(name, reasonOf(cause), cause);
  }
  if (json === undefined) throw new InvalidDataError(name, `a ${typeof data} has no JSON form`);
  return json;
}

/** Decodes a record; undefined if it is not one of ours. */
export function decodeRecord(text: string): JobRecord | undefined {
  const firstLine = text.indexOf("\n");
  const secondLine = text.indexOf("\n", firstLine + 1);
  if (secondLine < 0) return undefined;
  const a = text.indexOf(";");
  const b = text.indexOf(";", a + 1);
  const c = text.indexOf(";", b + 1);
  if (a < 0 || c < 0 || c > firstLine) return undefined;
  const options = decodeOptions(text.slice(c + 1, firstLine));
  if (options === undefined) return undefined;
  return {
    addedAt: Number(text.slice(0, a)),
    attempts: Number(text.slice(a + 1, b)),
    stalls: Number(text.slice(b + 1, c)),
    options,
    name: text.slice(firstLine + 1, secondLine),
    json: text.slice(secondLine + 1),
  };
}

/** Decodes a JSON string that encodeData() wrote. */
export function decodeData(json: string): unknown {
  return json === "" ? undefined : JSON.parse(json);
}

const NO_OPTIONS: RecordOptions = {};

function encodeOptions(options: RecordOptions): string {
  for (const _ in options) return JSON.stringify(options);
  return "";
}

function decodeOptions(text: string): RecordOptions | undefined {
  if (text === "") return NO_OPTIONS;
  try {
    const options: unknown = JSON.parse(text);
    return typeof options === "object" && options !== null ? typed({ ...options }) : undefined;
  } catch {
    return undefined; // the caller sets the job aside
  }
}

/** Another program may have written anything: an option of the wrong type counts as not given. */
function typed(options: Record<string, unknown>): RecordOptions {
  const given = Object.entries(options).filter(([name, value]) => TYPES[name]?.(value));
  return Object.fromEntries(given) as RecordOptions;
}

const isString = (value: unknown) => typeof value === "string";
const isCount = (value: unknown) => Number.isSafeInteger(value);
const isTime = (value: unknown) => typeof value === "number" && value >= 0 && value <= 2 ** 31 - 1;
const TYPES: Readonly<Record<string, (value: unknown) => boolean>> = {
  a: isCount,
  b: (value) =>
    Array.isArray(value) && isString(value[0]) && value.slice(1, 4).every(Number.isFinite),
  p: isCount,
  g: isString,
  t: isTime,
  k: (value) => Array.isArray(value) && value.length === 4 && value.every(Number.isFinite),
  d: isString,
  f: isString,
  q: isString,
  n: isCount,
  y: isString,
  c: (value) => value === 1 || value === 2,
  s: isString,
  x: isString,
};
