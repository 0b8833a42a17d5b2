/** From errors to the problem+json answers of the v3 queue; the caller learns which parameter it was. */
import { RopewayError } from "@ropeway/core";
import { InvalidArgumentError } from "@ropeway/merge";

/** An answer to a request that failed. */
export interface QueueProblem {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: {
    readonly type: string;
    readonly title: string;
    readonly status: number;
    readonly detail: string;
    readonly code: string;
    readonly parameter?: string;
  };
}

interface Kind {
  readonly status: number;
  readonly title: string;
  /** Told instead of the error's message, which would name our addresses. */
  readonly detail?: string;
}

const AWAY: Kind = {
  status: 503,
  title: "Redis cannot be reached",
  detail: "The item may not have been stored. Repeat the request with the same Idempotency-Key.",
};

const KINDS: Readonly<Record<string, Kind>> = {
  INVALID_ARGUMENT: { status: 400, title: "A parameter is wrong" },
  INVALID_KEY: { status: 400, title: "A parameter is wrong" },
  BLOCKED_TARGET: { status: 400, title: "The target must not be called" },
  UNAUTHENTICATED: { status: 401, title: "A token is needed" },
  CROSS_SITE: { status: 403, title: "Other sites must not write here" },
  ROUTE_NOT_FOUND: { status: 404, title: "There is nothing here" },
  METHOD_NOT_ALLOWED: { status: 405, title: "Not with this method" },
  BODY_TOO_LARGE: { status: 413, title: "The body is too large" },
  BAD_REQUEST: { status: 400, title: "The request cannot be read" },
  NOT_CONNECTED: AWAY,
  CONNECTION_LOST: AWAY,
  CONNECTION_CLOSED: AWAY,
  TIMEOUT: AWAY,
  SERVER_REPLY: { ...AWAY, title: "Redis cannot do this now" },
};

const UNKNOWN: Kind = {
  status: 500,
  title: "Something went wrong on our side",
  detail: "The request failed for a reason that is in the log.",
};

/** The answer that an error gets. */
export function queueProblem(error: unknown): QueueProblem {
  const ours = error instanceof RopewayError ? error : undefined;
  const code = ours !== undefined && Object.hasOwn(KINDS, ours.code) ? ours.code : "INTERNAL";
  const kind = KINDS[code] ?? UNKNOWN;
  const headers: Record<string, string> = {};
  if (kind.status === 503) headers["retry-after"] = "1";
  if (kind.status === 405) headers.allow = String(ours?.details.allow);
  if (kind.status === 401) headers["www-authenticate"] = 'Bearer realm="ropeway"';
  const parameter = parameterOf(error);
  const body = {
    type: "about:blank",
    title: kind.title,
    status: kind.status,
    detail: kind.detail ?? (ours?.message as string),
    code,
    ...(parameter === undefined ? {} : { parameter }),
  };
  return { status: kind.status, headers, body };
}

function parameterOf(error: unknown): string | undefined {
  if (error instanceof InvalidArgumentError) return error.parameter;
  const code = error instanceof RopewayError ? error.code : undefined;
  if (code === "INVALID_KEY") return "merge_key";
  if (code === "BLOCKED_TARGET") return "service";
  if (code === "BODY_TOO_LARGE") return "body";
  return undefined;
}
