/** Every error of the CLI itself. Each message is the one sentence a user reads. */
import { hostname } from "node:os";
import { RopewayError } from "@ropeway/core";
import { closest, show } from "@ropeway/core/internal";

/** The command line is invalid. */
export class UsageError extends RopewayError {
  constructor(message: string) {
    super("USAGE", message);
  }
}

/**
 * The command line names something that does not exist, such as a queue or an account. `known` are the
 * names that do exist; the nearest one is suggested. The exit code is 4.
 */
export class NotFoundError extends RopewayError {
  constructor(what: string, name: string, known: readonly string[] = []) {
    const near = closest(name, known);
    const hint = near === undefined ? "" : `: did you mean ${near}?`;
    super("NOT_FOUND", `${what} ${show(name)} not found${hint}`, {
      details: { what, name, ...(near === undefined ? {} : { near }) },
    });
  }
}

/** What is wrong with one setting. */
export interface SettingFault {
  readonly key: string;
  /** As it may be shown: a secret is masked by the caller. */
  readonly value: string;
  /** Finishes the sentence "must be ...". */
  readonly allowed: string;
  /** Where the value came from, such as ropeway.toml:4. */
  readonly where: string;
}

/** A setting has a value that is not allowed; nothing was started. */
export class SettingError extends RopewayError {
  constructor(fault: SettingFault) {
    const { key, value, allowed, where } = fault;
    super("BAD_SETTING", `${key} is ${value} in ${where}, but must be ${allowed}`, {
      details: { ...fault },
    });
  }
}

/** A settings file names something that is no setting. */
export class UnknownSettingError extends RopewayError {
  constructor(key: string, where: string, near: string | undefined) {
    const hint = near === undefined ? "see `ropeway config`" : `did you mean ${near}?`;
    super("UNKNOWN_SETTING", `${where} sets ${key}, which is not a setting: ${hint}`, {
      details: { key, where, ...(near === undefined ? {} : { near }) },
    });
  }
}

/** A secret is in a place that other users can read: in a settings file or on a command line. */
export class MisplacedSecretError extends RopewayError {
  constructor(key: string, where: string, instead: string) {
    super("MISPLACED_SECRET", `${where} holds a secret for ${key}: ${instead} instead`, {
      details: { key, where },
    });
  }
}

/** A settings file or secret file that cannot be read or is not what it should be. */
export class UnreadableFileError extends RopewayError {
  constructor(where: string, why: string, cause?: unknown) {
    super("UNREADABLE_FILE", `cannot read ${where}: ${why}`, { cause, details: { where } });
  }
}

/** The home cannot be created or written to. */
export class HomeError extends RopewayError {
  constructor(home: string, cause: NodeJS.ErrnoException) {
    super(
      "HOME_UNUSABLE",
      `cannot use ${home} as home (${cause.code}): choose another one with ROPEWAY_HOME`,
      { cause, details: { home } },
    );
  }
}

/** No Redis is named and none was started by `ropeway up`. */
export class NoRedisError extends RopewayError {
  constructor(home: string) {
    super(
      "NO_REDIS",
      `no Redis configured: set REDIS_URL, or start one with \`ropeway up\` (none is running in ${home})`,
      { details: { home } },
    );
  }
}

/** Another `ropeway up` has this home, perhaps in another container or on another host. */
export class AlreadyRunningError extends RopewayError {
  constructor(
    home: string,
    holder: { readonly pid: number; readonly host: string },
    url: string | undefined,
  ) {
    const { pid, host } = holder;
    const at = url === undefined ? "" : ` at ${url}`;
    const on = host === hostname() ? "" : ` on ${host}`;
    super(
      "ALREADY_RUNNING",
      `ropeway is already running${at} in ${home} (pid ${pid}${on}): stop it first, or choose another home with ROPEWAY_HOME`,
      { details: { home, pid, host, ...(url === undefined ? {} : { url }) } },
    );
  }
}

/** Another `ropeway up` took this home, because this one showed no sign of life for too long. */
export class HomeLostError extends RopewayError {
  constructor(home: string) {
    super(
      "HOME_LOST",
      `another ropeway has taken ${home}: this machine was suspended, or its disk was away`,
      { details: { home } },
    );
  }
}

/** No space is left on a disk. */
export class DiskFullError extends RopewayError {
  constructor(path: string, cause?: unknown) {
    super("DISK_FULL", `the disk that holds ${path} is full: free some space and start again`, {
      cause,
      details: { path },
    });
  }
}

/** A port that was asked for by name is taken. */
export class PortInUseError extends RopewayError {
  constructor(key: string, port: number, where: string) {
    super(
      "PORT_IN_USE",
      `port ${port} is in use by another program: free it, or change ${key} (from ${where})`,
      { details: { key, port, where } },
    );
  }
}

/** The Redis that `up` starts did not come up, or does not stay up. */
export class RedisStartError extends RopewayError {
  constructor(why: string, log: string) {
    super("REDIS_START", `the Redis of this home ${why} (its log: ${log})`, { details: { log } });
  }
}
