/**
 * A job as Redis keeps it, one text:
 *
 *   1763246400123;0;0;{"a":3,"g":"acme"}\nsend-mail\n{"to":"ann@example.org"}
 *   |             | | |                    |          `- data, JSON, or nothing for undefined
 *   |             | | |                    `- name, one line
 *   |             | | `- options that differ from the defaults, JSON on one line, or nothing
 *   |             | `- how often its lease ran out
 *   |             `- attempts that have ended
 *   `- added at, ms of the Redis clock; add.lua puts it in front of what we send
 *
 * One field of one hash per job costs less than half the memory of a key per job, and a job without
 * special wishes carries no options at all. Lua reads the first line only.
 */
import { reasonOf } from "@ropeway/core/internal";
import { InvalidDataError, InvalidNameError } from "./errors.ts";

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
  /** keep: completed count and age ms, failed count and age ms; -1 is any number, age 0 for ever */
  readonly k?: readonly [number, number, number, number];
  /** dedupe key */
  readonly d?: string;
  /** parent's id */
  readonly f?: string;
  /** number of children */
  readonly n?: number;
  /** 1: run although a child failed */
  readonly c?: 1;
  /** schedule that made it */
  readonly s?: string;
  /** W3C traceparent */
  readonly x?: string;
}

/** A record, read. */
export interface JobRecord {
  readonly addedAt: number;
  readonly attempts: number;
  readonly stalls: number;
  readonly options: RecordOptions;
  readonly name: string;
  /** JSON text; empty for undefined. */
  readonly json: string;
}

/** What follows the time of adding in the record of a new job. */
export function encodeRecord(name: string, data: unknown, options: RecordOptions): string {
  if (typeof name !== "string" || name === "" || hasControlCharacter(name)) {
    throw new InvalidNameError("job name", name);
  }
  return `;0;0;${encodeOptions(options)}\n${name}\n${encodeData(data, name)}`;
}

/** JSON text of a job's data or result; empty for undefined. */
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

/** Reads a record; undefined if it is none of ours. */
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

/** The value of a JSON text as encodeData() writes it. */
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
    return JSON.parse(text) as RecordOptions;
  } catch {
    return undefined; // the caller sets the job aside
  }
}

function hasControlCharacter(text: string): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) < 32) return true;
  return false;
}
