/** A failure of the testkit. `code` names the failure, `cause` is the reason. */
export class TestkitError extends Error {
  readonly code: TestkitErrorCode;

  constructor(code: TestkitErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "TestkitError";
    this.code = code;
  }
}

/**
 * - `START_FAILED` a server or script did not start; the message ends with its last output
 * - `NOT_RUNNING` the method needs a running process
 * - `NO_PROGRAM` a server program is not available on this machine
 * - `GAVE_UP` a wait timed out; `cause` is the last failed attempt
 * - `LEAK` a test file left something open
 * - `SCRIPT_FAILED` a script exited with a code other than 0; the message ends with its output
 */
export type TestkitErrorCode =
  | "START_FAILED"
  | "NOT_RUNNING"
  | "NO_PROGRAM"
  | "GAVE_UP"
  | "LEAK"
  | "SCRIPT_FAILED";

/** An error reply of Redis, such as `-ERR ...`. `code` is its first word. */
export class ReplyError extends Error {
  readonly code: string;

  constructor(message: string) {
    super(message);
    this.name = "ReplyError";
    this.code = message.split(" ", 1)[0] ?? "ERR";
  }
}
