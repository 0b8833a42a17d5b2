/** Every error of the jobs package; docs/reference/errors.md lists them too, and a test compares. */
import { RopewayError } from "@ropeway/core";
import { show } from "@ropeway/core/internal";

/** A name (of a job, group, dedupe key or schedule) that cannot be used. */
export class InvalidNameError extends RopewayError {
  constructor(what: string, value: unknown) {
    super(
      "JOB_NAME_INVALID",
      `${what} is ${show(value)}, but must be a text of at least one character without control characters`,
      { details: { what, value } },
    );
  }
}

/** A job's data, result or progress has no JSON form. */
export class InvalidDataError extends RopewayError {
  constructor(name: string, why: string, cause?: unknown) {
    super(
      "JOB_DATA_INVALID",
      `what job ${show(name)} was given cannot be written as JSON: ${why}`,
      {
        cause,
        details: { name },
      },
    );
  }
}

/** There is no such job (any more). */
export class JobNotFoundError extends RopewayError {
  constructor(queue: string, id: string) {
    super("JOB_NOT_FOUND", `queue ${show(queue)} has no job ${show(id)}`, {
      details: { queue, id },
    });
  }
}

/** The job's state does not allow what was asked for. */
export class JobStateError extends RopewayError {
  constructor(id: string, verb: string, state: string) {
    super("JOB_STATE", `cannot ${verb} job ${show(id)}: it is ${state}`, {
      details: { id, verb, state },
    });
  }
}

/** The awaited job has failed for good; `cause` is its error. */
export class JobFailedError extends RopewayError {
  constructor(id: string, failure: JobFailure) {
    super("JOB_FAILED", `job ${show(id)} failed: ${failure.message}`, {
      cause: failure,
      details: { id, failure },
    });
  }
}

/** What remains of the error a handler threw. */
export interface JobFailure {
  readonly name: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
}

/** The handler took longer than the job's `timeoutMs`. */
export class JobTimeoutError extends RopewayError {
  constructor(id: string, timeoutMs: number) {
    super("JOB_TIMEOUT", `job ${show(id)} took longer than ${timeoutMs} ms`, {
      details: { id, timeoutMs },
    });
  }
}

/** Somebody cancelled the running job: the reason of its signal. */
export class JobCancelledError extends RopewayError {
  constructor(id: string, reason: string) {
    super("JOB_CANCELLED", `job ${show(id)} was cancelled${reason === "" ? "" : `: ${reason}`}`, {
      details: { id, reason },
    });
  }
}

/** The lease ran out while the job ran: another worker may have it, and this outcome counts for nothing. */
export class LeaseLostError extends RopewayError {
  constructor(id: string, fence: number) {
    super("JOB_LEASE_LOST", `the lease of job ${show(id)} with fence ${fence} was lost`, {
      details: { id, fence },
    });
  }
}

/** The job took its workers down too often and is not tried again. */
export class JobStalledError extends RopewayError {
  constructor(id: string, stalls: number) {
    super("JOB_STALLED", `job ${show(id)} lost its worker ${stalls} times`, {
      details: { id, stalls },
    });
  }
}

/** What stands in Redis under this id is no job of ours. */
export class MalformedJobError extends RopewayError {
  constructor(id: string, why: string) {
    super("JOB_MALFORMED", `job ${show(id)} cannot be read: ${why}`, { details: { id } });
  }
}

/** No handler has the job's name. */
export class NoHandlerError extends RopewayError {
  constructor(id: string, name: string) {
    super(
      "JOB_NO_HANDLER",
      `job ${show(id)} is called ${show(name)}, for which there is no handler`,
      {
        details: { id, name },
      },
    );
  }
}

/** Throw it in a handler: the job fails for good, whatever attempts are left. */
export class UnrecoverableError extends RopewayError {
  constructor(message: string, cause?: unknown) {
    super("JOB_UNRECOVERABLE", message, { cause });
  }
}

/** Throw it in a handler: the job goes back unharmed and the whole queue rests for so long. */
export class RateLimitedError extends RopewayError {
  readonly retryAfterMs: number;

  constructor(retryAfterMs: number) {
    super("JOB_RATE_LIMITED", `the queue rests for ${retryAfterMs} ms`, {
      details: { retryAfterMs },
    });
    this.retryAfterMs = retryAfterMs;
  }
}

/** A flow that cannot be added. */
export class InvalidFlowError extends RopewayError {
  constructor(why: string) {
    super("JOB_FLOW_INVALID", `this flow cannot be added: ${why}`);
  }
}

/** The queue or worker was closed. */
export class JobsClosedError extends RopewayError {
  constructor(what: string) {
    super("JOBS_CLOSED", `${what} was closed`);
  }
}

/** Any thrown value as what is kept of it. */
export function failureOf(thrown: unknown): JobFailure {
  if (!(thrown instanceof Error)) return { name: "NonError", message: show(thrown) };
  const { code } = thrown as { code?: unknown };
  return {
    name: thrown.name,
    message: thrown.message,
    ...(typeof code === "string" ? { code } : {}),
    ...(thrown.stack === undefined ? {} : { stack: thrown.stack.slice(0, 4_000) }),
  };
}
