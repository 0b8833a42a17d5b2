/** Something the testkit could not do; `code` tells what, `cause` why. */
export class TestkitError extends Error {
  readonly code: TestkitErrorCode;

  constructor(code: TestkitErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = "TestkitError";
    this.code = code;
  }
}

/**
 * - `START_FAILED` a server or script did not come up; the message ends with its last output
 * - `NOT_RUNNING` the verb needs a running process
 * - `NO_PROGRAM` a server program is not to be had on this machine
 * - `GAVE_UP` a bounded wait ended; `cause` is the last failed attempt
 * - `LEAK` a test file left something open behind
 * - `SCRIPT_FAILED` a script ended with a code other than 0; the message ends with its output
 */
export type TestkitErrorCode =
  | "START_FAILED"
  | "NOT_RUNNING"
  | "NO_PROGRAM"
  | "GAVE_UP"
  | "LEAK"
  | "SCRIPT_FAILED";

/** What Redis answered with `-ERR ...`; `code` is its first word. */
export class ReplyError extends Error {
  readonly code: string;

  constructor(message: string) {
    super(message);
    this.name = "ReplyError";
    this.code = message.split(" ", 1)[0] ?? "ERR";
  }
}
