/**
 * What an exit code means; docs/reference/cli.md lists them from here. An error in the command line or the
 * settings is 2. An error that was found while the command ran is 1 or 3.
 */
import { RopewayError } from "@ropeway/core";

export const EXIT = {
  ok: { code: 0, meaning: "Success. `up` and `portal` were stopped by Ctrl-C or SIGTERM." },
  failed: {
    code: 1,
    meaning: "The command failed, or a check found a problem.",
  },
  usage: { code: 2, meaning: "The command line or a setting is invalid. Nothing was changed." },
  unreachable: {
    code: 3,
    meaning:
      "No usable Redis: it is down, unknown, too old, refused the password, or could not be downloaded.",
  },
  notFound: {
    code: 4,
    meaning:
      "Not found: the command names something that does not exist, such as a queue, a job, a service or an account.",
  },
  interrupted: { code: 130, meaning: "Interrupted by Ctrl-C; 143 for SIGTERM." },
} as const;

const BY_ERROR: Readonly<Record<string, number>> = {
  USAGE: EXIT.usage.code,
  BAD_SETTING: EXIT.usage.code,
  UNKNOWN_SETTING: EXIT.usage.code,
  MISPLACED_SECRET: EXIT.usage.code,
  UNREADABLE_FILE: EXIT.usage.code,
  SOURCE_FILE: EXIT.usage.code,
  HOME_UNUSABLE: EXIT.usage.code,
  INVALID_OPTION: EXIT.usage.code,
  INVALID_ARGUMENT: EXIT.usage.code,
  BLOCKED_ENDPOINT: EXIT.usage.code,
  INVALID_NAME: EXIT.usage.code,
  JOB_NAME_INVALID: EXIT.usage.code,
  NOT_FOUND: EXIT.notFound.code,
  QUEUE_NOT_FOUND: EXIT.notFound.code,
  JOB_NOT_FOUND: EXIT.notFound.code,
  SERVICE_NOT_FOUND: EXIT.notFound.code,
  METHOD_NOT_FOUND: EXIT.notFound.code,
  UNKNOWN_LETTER: EXIT.notFound.code,
  UNKNOWN_ENDPOINT: EXIT.notFound.code,
  UNKNOWN_SCHEDULE: EXIT.notFound.code,
  UNKNOWN_ACCOUNT: EXIT.notFound.code,
  UNKNOWN_TASK: EXIT.notFound.code,
  UNKNOWN_NODE: EXIT.notFound.code,
  UNKNOWN_ROLE: EXIT.notFound.code,
  UNKNOWN_TOKEN: EXIT.notFound.code,
  UNKNOWN_ALERT: EXIT.notFound.code,
  ROOM_NOT_FOUND: EXIT.notFound.code,
  NOT_A_MEMBER: EXIT.notFound.code,
  UNKNOWN_TASK_TYPE: EXIT.usage.code,
  STORE_UNAVAILABLE: EXIT.unreachable.code,
  STORE_UNSUPPORTED: EXIT.unreachable.code,
  NO_REDIS: EXIT.unreachable.code,
  CONNECT_FAILED: EXIT.unreachable.code,
  AUTH_FAILED: EXIT.unreachable.code,
  SERVER_TOO_OLD: EXIT.unreachable.code,
  CONNECTION_LOST: EXIT.unreachable.code,
  NOT_CONNECTED: EXIT.unreachable.code,
  PROGRAM_UNAVAILABLE: EXIT.unreachable.code,
};

/** The exit code that an error ends the process with. */
export function exitCodeOf(error: unknown): number {
  const code = codeOf(error);
  return (code === undefined ? undefined : BY_ERROR[code]) ?? EXIT.failed.code;
}

/** The stable code of an error whose message is for users; undefined for other errors. */
export function codeOf(error: unknown): string | undefined {
  if (error instanceof RopewayError) return error.code;
  // The package `provide` does not depend on core and has its own error class.
  const code = error instanceof Error ? (error as { code?: unknown }).code : undefined;
  return code === "PROGRAM_UNAVAILABLE" ? code : undefined;
}
