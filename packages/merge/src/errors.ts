/** Every error of the merge queue. */
import { RopewayError } from "@ropeway/core";
import { show } from "@ropeway/core/internal";

/** The key cannot name a queue; nothing was stored. */
export class InvalidKeyError extends RopewayError {
  readonly parameter = "merge_key";

  constructor(key: string, rule: string) {
    super("INVALID_KEY", `the key ${show(key)} ${rule}`, { details: { key } });
  }
}

/** An argument of an action has a value that is not allowed; nothing was changed. */
export class InvalidArgumentError extends RopewayError {
  /** The name of the argument, as the caller knows it. */
  readonly parameter: string;

  constructor(parameter: string, value: unknown, allowed: string) {
    super("INVALID_ARGUMENT", `${parameter} is ${show(value)}, but must be ${allowed}`, {
      details: { parameter, value },
    });
    this.parameter = parameter;
  }
}

/** Somebody else holds the key's batch. */
export class LockedError extends RopewayError {
  /** How long the lock lasts at most; -1 if it has no end. */
  readonly retryMs: number;

  constructor(key: string, retryMs: number) {
    super("LOCKED", `the key ${show(key)} is locked`, { details: { key, retryMs } });
    this.retryMs = retryMs;
  }
}

/** The lock's token is not (or no longer) ours: nothing was changed, the batch may be with another. */
export class LeaseLostError extends RopewayError {
  constructor(key: string, action: string) {
    super("LEASE_LOST", `${action} of ${show(key)} came without the lock`, { details: { key } });
  }
}

/** Redis has no memory left: nothing was stored. What is queued still goes out, and makes room. */
export class OutOfMemoryError extends RopewayError {
  constructor(key: string, cause: unknown) {
    super("OUT_OF_MEMORY", `Redis has no memory left for an item of ${show(key)}`, {
      cause,
      details: { key },
    });
  }
}

/** As many keys are paused as can be; pausing an endpoint, or all, is without such a limit. */
export class TooManyPausedError extends RopewayError {
  constructor(key: string, most: number) {
    super("TOO_MANY_PAUSED", `${show(key)} cannot be paused: ${most} keys are paused already`, {
      details: { key, most },
    });
  }
}

/** There is no dead letter with this id. */
export class UnknownLetterError extends RopewayError {
  constructor(id: string) {
    super("UNKNOWN_LETTER", `there is no dead letter ${show(id)}`, { details: { id } });
  }
}

/** Nothing is known of this receiver: it was never called, or is forgotten. */
export class UnknownEndpointError extends RopewayError {
  readonly parameter = "url";

  constructor(url: string) {
    super("UNKNOWN_ENDPOINT", `there is no receiver ${show(url)}`, { details: { url } });
  }
}

/** The target must not be called: its address is on the block list, or the URL is not one we call. */
export class BlockedTargetError extends RopewayError {
  readonly parameter = "service";

  constructor(target: string, reason: string) {
    super("BLOCKED_TARGET", `${target} must not be called: ${reason}`, {
      details: { target, reason },
    });
  }
}

/** A received webhook is not genuine, or too old. */
export class WebhookVerificationError extends RopewayError {
  constructor(reason: string) {
    super("WEBHOOK_VERIFICATION", `the webhook was refused: ${reason}`);
  }
}
