/** A job as people and tools see it. */
import type { JobFailure } from "../errors.ts";
import { decodeData, decodeRecord, type RecordOptions } from "../record.ts";
import type { RawJob } from "../store/queue-store.ts";

/** The states of a job. */
export const JOB_STATES = [
  "waiting",
  "delayed",
  "active",
  "blocked",
  "completed",
  "failed",
] as const;

/** The state of a job. */
export type JobState = (typeof JOB_STATES)[number];

/** All stored information about a job. */
export interface JobView {
  readonly id: string;
  readonly state: JobState;
  readonly name: string;
  readonly data: unknown;
  /** When it was added; ms of the Redis clock, like all times here. */
  readonly addedAt: number;
  /** Attempts that have ended. */
  readonly attempts: number;
  readonly maxAttempts: number;
  /** How often it lost its worker. */
  readonly stalls: number;
  readonly priority: number;
  readonly group?: string;
  readonly parent?: string;
  readonly children?: number;
  readonly schedule?: string;
  /** When it will run. */
  readonly dueAt?: number;
  /** The worker that runs it, since when, and with which fence. */
  readonly worker?: string;
  readonly activeSince?: number;
  readonly fence?: number;
  /** The reason for which its handler was asked to stop. */
  readonly cancelling?: string;
  readonly progress?: unknown;
  readonly logs?: readonly string[];
  readonly result?: unknown;
  /** The error of the last attempt. */
  readonly failure?: JobFailure;
  /** The errors of the last attempts, at most ten, the last one last. */
  readonly failures?: readonly JobFailure[];
  readonly endedAt?: number;
  /** Set if the value in Redis could not be read. */
  readonly malformed?: true;
}

/** The content of a job's notes. Values are JSON strings. */
export interface Notes {
  readonly p?: string;
  readonly l?: readonly string[];
  readonly h?: readonly string[];
  readonly r?: string;
  readonly t?: number;
}

/** Decodes a script's reply about a job. */
export function viewOf(raw: RawJob): JobView {
  const record = decodeRecord(raw.record);
  const { notes, malformed } = readNotes(raw.notes);
  const options: RecordOptions = record?.options ?? {};
  const ended = raw.state === "completed" || raw.state === "failed";
  const data = record === undefined ? { malformed: true as const } : readData(record.json);
  return {
    id: raw.id,
    state: raw.state as JobState,
    name: record?.name ?? "",
    data: data.value,
    addedAt: record?.addedAt ?? 0,
    attempts: record?.attempts ?? 0,
    maxAttempts: options.a ?? 1,
    stalls: record?.stalls ?? 0,
    priority: options.p ?? 0,
    ...(options.g === undefined ? {} : { group: options.g }),
    ...(options.f === undefined ? {} : { parent: options.f }),
    ...(options.n === undefined ? {} : { children: options.n }),
    ...(options.s === undefined ? {} : { schedule: options.s }),
    ...(raw.due === null ? {} : { dueAt: Number(raw.due) }),
    ...readToken(raw.token),
    ...(notes.p === undefined ? {} : { progress: readData(notes.p).value }),
    ...(notes.l === undefined ? {} : { logs: notes.l }),
    ...(raw.state === "completed" ? { result: readData(notes.r ?? "").value } : {}),
    ...readFailures(notes.h),
    ...(ended && notes.t !== undefined ? { endedAt: notes.t } : {}),
    ...(data.malformed || malformed ? { malformed: true as const } : {}),
  };
}

/** fence@worker@since, /place if the job has come back before, and @reason if it is to be cancelled. */
function readToken(
  token: string | null,
): { fence: number; worker: string; activeSince: number; cancelling?: string } | undefined {
  if (token === null) return undefined;
  const [fence, worker = "", since, ...reason] = token.split("@");
  return {
    fence: Number(fence),
    worker,
    activeSince: Number.parseInt(since ?? "", 10),
    ...(reason.length === 0 ? {} : { cancelling: reason.join("@") }),
  };
}

function readFailures(texts: unknown): { failure?: JobFailure; failures?: JobFailure[] } {
  if (!Array.isArray(texts) || texts.length === 0) return {};
  const failures = texts.map((json) => readData(String(json)).value as JobFailure);
  const failure = failures.at(-1);
  return { ...(failure === undefined ? {} : { failure }), failures };
}

function readNotes(text: string | null): { notes: Notes; malformed: boolean } {
  if (text === null) return { notes: {}, malformed: false };
  try {
    const notes: unknown = JSON.parse(text);
    if (typeof notes !== "object" || notes === null) return { notes: {}, malformed: true };
    return { notes: notes as Notes, malformed: false };
  } catch {
    return { notes: {}, malformed: true };
  }
}

function readData(json: string): { value?: unknown; malformed?: true } {
  try {
    return { value: decodeData(json) };
  } catch {
    return { value: json, malformed: true };
  }
}
