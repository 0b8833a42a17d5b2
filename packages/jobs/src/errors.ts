/**
 * Every error of the jobs package. docs/reference/errors.md lists them too, and a test compares the two. An error
 * keeps its values in `details`, so that the failure of a job comes back as the same class in every process that
 * awaits it.
 */
import {
  AbortedError,
  ClosedError,
  ConnectionLostError,
  InvalidArgumentError,
  InvalidNameError,
  InvalidOptionError,
  LeaseLostError,
  NotConnectedError,
  OutOfMemoryError,
  OverloadedError,
  RopewayError,
  TimeoutError,
} from "@ropeway/core";
import { between, type ErrorTable, revive, show } from "@ropeway/core/internal";

/** A job's data, result or progress cannot be used: it has no JSON form, or a schema refuses it. */
export class InvalidDataError extends RopewayError {
  constructor(name: string, why: string, cause?: unknown) {
    super("JOB_DATA_INVALID", `the data of job ${show(name)} is invalid: ${why}`, {
      cause,
      details: { name, why },
    });
  }
}

/** There is no such job: it never existed, or has ended and was not kept. */
export class JobNotFoundError extends RopewayError {
  constructor(queue: string, id: string) {
    super(
      "JOB_NOT_FOUND",
      `queue ${show(queue)} has no job ${show(id)}: it was never added, was removed, or has ended and was not kept`,
      {
        details: { queue, id },
      },
    );
  }
}

/** The awaited job was removed before it ended. */
export class JobRemovedError extends RopewayError {
  constructor(queue: string, id: string) {
    super("JOB_REMOVED", `job ${show(id)} of queue ${show(queue)} was removed before it ended`, {
      details: { queue, id },
    });
  }
}

/** The state of the job does not allow the operation. */
export class JobStateError extends RopewayError {
  constructor(id: string, verb: string, state: string) {
    super("JOB_STATE", `cannot ${verb} job ${show(id)}: it is ${state}`, {
      details: { id, verb, state },
    });
  }
}

/** The awaited job has failed after its last attempt with an error that is not one of ours; see `failure`. */
export class JobFailedError extends RopewayError {
  constructor(id: string, failure: JobFailure) {
    super("JOB_FAILED", `job ${show(id)} failed: ${failure.message}`, {
      cause: failure,
      details: { id, failure },
    });
  }

  /** The name, message and stack of the error that the handler threw. */
  get failure(): JobFailure {
    return this.details.failure as JobFailure;
  }
}

/** The error that a handler threw, as Redis keeps it. */
export interface JobFailure {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  readonly stack?: string;
}

/** The handler took longer than the job's `timeoutMs`. */
export class JobTimeoutError extends RopewayError {
  constructor(id: string, timeoutMs: number) {
    super("JOB_TIMEOUT", `job ${show(id)} timed out after ${timeoutMs} ms`, {
      details: { id, timeoutMs },
    });
  }
}

/** The job was cancelled. It is the reason of a running handler's signal. */
export class JobCancelledError extends RopewayError {
  constructor(id: string, reason: string) {
    const why = reason === "" ? "" : `: ${reason}`;
    super("JOB_CANCELLED", `job ${show(id)} was cancelled${why}`, { details: { id, reason } });
  }
}

/** The job lost its worker more than `maxStalls` times and is not tried again. */
export class JobStalledError extends RopewayError {
  constructor(id: string, stalls: number) {
    super("JOB_STALLED", `job ${show(id)} lost its worker ${stalls} times`, {
      details: { id, stalls },
    });
  }
}

/** The value in Redis under this id is not a job of this library. */
export class MalformedJobError extends RopewayError {
  constructor(id: string, why: string) {
    super("JOB_MALFORMED", `job ${show(id)} cannot be read: ${why}`, { details: { id } });
  }
}

/** The worker has no handler for the job's name. */
export class NoHandlerError extends RopewayError {
  constructor(id: string, name: string) {
    super(
      "JOB_NO_HANDLER",
      `the worker has no handler for ${show(name)}, the name of job ${show(id)}`,
      {
        details: { id, name },
      },
    );
  }
}

/** A child of the flow failed, and its policy is to fail the parent. */
export class ChildFailedError extends RopewayError {
  constructor(child: string) {
    super("CHILD_FAILED", `child job ${child} failed`, { details: { child } });
  }
}

/** Throw it in a handler: the job fails and is not retried, even if attempts are left. */
export class UnrecoverableError extends RopewayError {
  constructor(message: string, cause?: unknown) {
    super("JOB_UNRECOVERABLE", message, { cause });
  }
}

const REST = between(0, 1e12);

/** Throw it in a handler: the job goes back to the queue, and no worker takes a job for this time. */
export class RateLimitedError extends RopewayError {
  constructor(retryAfterMs: number) {
    if (!REST.accepts(retryAfterMs)) {
      throw new InvalidArgumentError("retryAfterMs", retryAfterMs, REST.allowed);
    }
    super("JOB_RATE_LIMITED", `the queue takes no jobs for ${retryAfterMs} ms`, {
      details: { retryAfterMs },
    });
  }

  get retryAfterMs(): number {
    return Number(this.details.retryAfterMs);
  }
}

/** A flow that cannot be added. */
export class InvalidFlowError extends RopewayError {
  constructor(why: string) {
    super("JOB_FLOW_INVALID", `this flow cannot be added: ${why}`, { details: { why } });
  }
}

/** The queue has running jobs, and obliterate() was not forced. */
export class QueueActiveError extends RopewayError {
  constructor(queue: string) {
    super("QUEUE_ACTIVE", `queue ${show(queue)} has running jobs; pass { force: true }`, {
      details: { queue },
    });
  }
}

/** A sandboxed handler's process or thread ended before it returned a result. */
export class SandboxCrashedError extends RopewayError {
  constructor(id: string, why: string) {
    super("SANDBOX_CRASHED", `the sandbox of job ${show(id)} crashed: ${why}`, {
      details: { id, why },
    });
  }
}

/** The classes a failed job's error can have. */
const TABLE: ErrorTable = {
  JOB_DATA_INVALID: InvalidDataError,
  JOB_NOT_FOUND: JobNotFoundError,
  JOB_REMOVED: JobRemovedError,
  JOB_STATE: JobStateError,
  JOB_FAILED: JobFailedError,
  JOB_TIMEOUT: JobTimeoutError,
  JOB_CANCELLED: JobCancelledError,
  JOB_STALLED: JobStalledError,
  JOB_MALFORMED: MalformedJobError,
  JOB_NO_HANDLER: NoHandlerError,
  CHILD_FAILED: ChildFailedError,
  JOB_UNRECOVERABLE: UnrecoverableError,
  JOB_RATE_LIMITED: RateLimitedError,
  JOB_FLOW_INVALID: InvalidFlowError,
  QUEUE_ACTIVE: QueueActiveError,
  SANDBOX_CRASHED: SandboxCrashedError,
  ABORTED: AbortedError,
  CLOSED: ClosedError,
  CONNECTION_LOST: ConnectionLostError,
  INVALID_ARGUMENT: InvalidArgumentError,
  INVALID_NAME: InvalidNameError,
  INVALID_OPTION: InvalidOptionError,
  LEASE_LOST: LeaseLostError,
  NOT_CONNECTED: NotConnectedError,
  OUT_OF_MEMORY: OutOfMemoryError,
  OVERLOADED: OverloadedError,
  TIMEOUT: TimeoutError,
};

/** The error that a caller catches for a failed job: one of ours by its class, or JobFailedError. */
export function errorOf(id: string, failure: JobFailure | undefined): RopewayError {
  const { code, message = "unknown", details = {} } = failure ?? {};
  if (failure === undefined || code === undefined || !Object.hasOwn(TABLE, code)) {
    return new JobFailedError(id, failure ?? { name: "Error", message });
  }
  return revive(TABLE, { code, message, details, cause: failure });
}

/** Restores the error of a failure that failureOf() made in another process: ours by class, others by name. */
export function thrownOf(failure: JobFailure): Error {
  const { name, message, code, details = {}, stack } = failure;
  const known = code !== undefined && Object.hasOwn(TABLE, code);
  const error: Error = known ? revive(TABLE, { code, message, details }) : new Error(message);
  if (!known) Object.assign(error, { name, ...(code === undefined ? {} : { code }) });
  if (stack !== undefined) error.stack = stack;
  return error;
}

const LONGEST_STACK = 4_000;
const LONGEST_MESSAGE = 10_000;
const LONGEST_DETAILS = 2_000;
const LONGEST_NAME = 200; // of the class and of the code

/** The thrown value, or a replacement error if reading the value throws. */
export function readable(thrown: unknown): unknown {
  try {
    describe(thrown);
    return thrown;
  } catch (cause) {
    return new Error("the handler threw a value that cannot be read", { cause });
  }
}

/** Any thrown value as the failure that Redis keeps. */
export function failureOf(thrown: unknown): JobFailure {
  return describe(readable(thrown));
}

function describe(thrown: unknown): JobFailure {
  if (!(thrown instanceof Error)) {
    return { name: "NonError", message: show(thrown).slice(0, LONGEST_MESSAGE) };
  }
  const { code } = thrown as { code?: unknown };
  return {
    name: String(thrown.name).slice(0, LONGEST_NAME),
    message: String(thrown.message).slice(0, LONGEST_MESSAGE),
    ...(typeof code === "string" ? { code: code.slice(0, LONGEST_NAME) } : {}),
    ...(thrown instanceof RopewayError ? detailsOf(thrown) : {}),
    ...(typeof thrown.stack === "string" ? { stack: thrown.stack.slice(0, LONGEST_STACK) } : {}),
  };
}

/** The details, if they have a short JSON form. */
function detailsOf(error: RopewayError): { details?: Readonly<Record<string, unknown>> } {
  try {
    const json = JSON.stringify(error.details);
    return json.length > LONGEST_DETAILS ? {} : { details: JSON.parse(json) };
  } catch {
    return {}; // a cycle or a BigInt: the message is enough
  }
}
