/** What a {@link ProgramUnavailableError} is made of. */
export interface UnavailableDetails {
  /** The program that was asked for. */
  readonly program: string;
  /** Why every way of having it failed, without a full stop. */
  readonly reason: string;
  /** The whole sentence for a person: what is missing, why, and what to do. */
  readonly message: string;
  readonly cause?: unknown;
}

/** A program was not found and could not be downloaded. The message says what to do. */
export class ProgramUnavailableError extends Error {
  override readonly name = "ProgramUnavailableError";
  readonly code = "PROGRAM_UNAVAILABLE";
  readonly program: string;
  readonly reason: string;

  constructor({ program, reason, message, cause }: UnavailableDetails) {
    super(message, { cause });
    this.program = program;
    this.reason = reason;
  }
}

/** One step on the way (a tool that failed, a package that is too old); becomes a reason, never reaches callers. */
export class StepFailedError extends Error {
  override readonly name = "StepFailedError";
  readonly code = "STEP_FAILED";
}
