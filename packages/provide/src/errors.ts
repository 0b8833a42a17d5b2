/** The values of a {@link ProgramUnavailableError}. */
export interface UnavailableDetails {
  /** The requested program. */
  readonly program: string;
  /** Why every source of it failed, without a full stop. */
  readonly reason: string;
  /** The whole sentence for the user: what is missing, why, and how to fix it. */
  readonly message: string;
  readonly cause?: unknown;
}

/** A program was not found and could not be downloaded. The message says how to fix it. */
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

/** One failed step (a tool that failed, a package that is too old). It becomes a reason and never reaches callers. */
export class StepFailedError extends Error {
  override readonly name = "StepFailedError";
  readonly code = "STEP_FAILED";
}
