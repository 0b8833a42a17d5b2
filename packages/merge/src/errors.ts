/** Every error of the merge queue that other packages do not share. */
import { RopewayError } from "@ropeway/core";
import { show } from "@ropeway/core/internal";

/** Another caller holds the key's batch. */
export class LockedError extends RopewayError {
  constructor(key: string, retryMs: number) {
    super("LOCKED", `the key ${show(key)} is locked`, { details: { key, retryMs } });
  }

  /** The maximum time that the lock lasts; -1 if it has no end. */
  get retryMs(): number {
    return Number(this.details.retryMs);
  }
}

/** The maximum number of paused keys is reached. Pausing an endpoint, or everything, has no such limit. */
export class TooManyPausedError extends RopewayError {
  constructor(key: string, most: number) {
    super(
      "TOO_MANY_PAUSED",
      `${show(key)} cannot be paused: ${most} keys are paused already; resume one first`,
      {
        details: { key, most },
      },
    );
  }
}

/** No dead letter has this id. */
export class UnknownLetterError extends RopewayError {
  constructor(id: string) {
    super("UNKNOWN_LETTER", `dead letter ${show(id)} not found`, { details: { id } });
  }
}

/** The endpoint was not found: it was never called, or its record has expired. */
export class UnknownEndpointError extends RopewayError {
  constructor(url: string) {
    super("UNKNOWN_ENDPOINT", `endpoint ${show(url)} not found`, { details: { url } });
  }
}

/** No schedule has this id. */
export class UnknownScheduleError extends RopewayError {
  constructor(id: string) {
    super("UNKNOWN_SCHEDULE", `schedule ${show(id)} not found`, { details: { id } });
  }
}

/** The maximum number of schedules is reached. */
export class TooManySchedulesError extends RopewayError {
  constructor(id: string, most: number) {
    super(
      "TOO_MANY_SCHEDULES",
      `${show(id)} cannot be added: there are ${most} schedules already; remove one first`,
      {
        details: { id, most },
      },
    );
  }
}

/** The endpoint must not be called: its address is blocked, or its URL is not allowed. */
export class BlockedEndpointError extends RopewayError {
  constructor(endpoint: string, reason: string) {
    super("BLOCKED_ENDPOINT", `${endpoint} must not be called: ${reason}`, {
      details: { endpoint, reason },
    });
  }

  /** The part of a v3 path that names the endpoint. */
  get parameter(): string {
    return "service";
  }
}

/** The idempotency key was used before, with another body or other options; nothing was stored. */
export class IdempotencyMismatchError extends RopewayError {
  constructor(idempotencyKey: string) {
    super(
      "IDEMPOTENCY_MISMATCH",
      `the idempotency key ${show(idempotencyKey)} was used with another request`,
      { details: { idempotencyKey } },
    );
  }
}

/** The maximum number of endpoints that an operator paused, disabled or limited is reached. */
export class TooManyEndpointsError extends RopewayError {
  constructor(url: string, most: number) {
    super(
      "TOO_MANY_ENDPOINTS",
      `${show(url)} cannot be changed: ${most} endpoints are paused, disabled or limited already; enable one first`,
      {
        details: { url, most },
      },
    );
  }
}

/** A received webhook is not genuine, or too old. */
export class WebhookVerificationError extends RopewayError {
  constructor(reason: string) {
    super("WEBHOOK_VERIFICATION", `the webhook was refused: ${reason}`, { details: { reason } });
  }
}
