/**
 * From errors to RFC 9457 problems. One table has the status and the title of every error code. An error
 * that is not in the table is an internal error: it is logged, and the response has no details.
 *
 * `detail` in the table replaces the error's own message, which for internal errors would expose addresses
 * and commands.
 */
import { InvalidArgumentError, RopewayError, ServerReplyError } from "@ropeway/core";
import type { Problem } from "../contract.ts";
import { InvalidRequestError, MethodNotAllowedError, seconds } from "../errors.ts";

/** How one error code is reported. */
export interface ProblemKind {
  readonly status: number;
  readonly title: string;
  /** Sent instead of the error's message. */
  readonly detail?: string;
  /** Seconds after which a retry makes sense. */
  readonly retryAfter?: number;
}

const REDIS_AWAY = {
  status: 503,
  title: "Redis cannot be reached",
  retryAfter: 1,
} as const;

/** Every code that an error response can have. */
export const PROBLEMS: Readonly<Record<string, ProblemKind>> = {
  INVALID_REQUEST: { status: 400, title: "The request does not match its schema" },
  INVALID_JSON: { status: 400, title: "The body is not valid JSON" },
  INVALID_URL: { status: 400, title: "The URL is invalid" },
  INVALID_OPTION: { status: 400, title: "A value is not allowed" },
  INVALID_ARGUMENT: { status: 400, title: "A parameter is invalid" },
  INVALID_NAME: { status: 400, title: "The name is invalid" },
  BLOCKED_ENDPOINT: { status: 400, title: "The endpoint must not be called" },
  JOB_NAME_INVALID: { status: 400, title: "The name is invalid" },
  JOB_DATA_INVALID: { status: 400, title: "The data cannot be serialized as JSON" },
  BAD_REQUEST: { status: 400, title: "The request is malformed" },
  UNAUTHENTICATED: { status: 401, title: "Authentication required" },
  LOGIN_FAILED: { status: 401, title: "Login failed" },
  FORBIDDEN: { status: 403, title: "Permission denied" },
  CROSS_SITE: { status: 403, title: "Requests from pages of other sites are refused" },
  ROUTE_NOT_FOUND: { status: 404, title: "Route not found" },
  NOT_FOUND: { status: 404, title: "Not found" },
  UNKNOWN_ACCOUNT: { status: 404, title: "Account not found" },
  UNKNOWN_ENDPOINT: { status: 404, title: "Endpoint not found" },
  UNKNOWN_LETTER: { status: 404, title: "Dead letter not found" },
  UNKNOWN_SCHEDULE: { status: 404, title: "Schedule not found" },
  JOB_NOT_FOUND: { status: 404, title: "Job not found" },
  UNKNOWN_TASK: { status: 404, title: "Task not found" },
  UNKNOWN_NODE: { status: 404, title: "Node not found" },
  UNKNOWN_ROLE: { status: 404, title: "Role not found" },
  UNKNOWN_TOKEN: { status: 404, title: "Token not found" },
  UNKNOWN_ALERT: { status: 404, title: "Alert not found" },
  METHOD_NOT_ALLOWED: { status: 405, title: "Method not allowed" },
  REQUEST_TIMEOUT: { status: 408, title: "The request timed out" },
  ILLEGAL_TRANSITION: { status: 409, title: "The task's status does not allow this" },
  DUPLICATE_TASK: { status: 409, title: "The task exists already" },
  ALREADY_EXISTS: { status: 409, title: "It exists already" },
  PROTECTED: { status: 409, title: "It cannot be changed" },
  CONFLICT: { status: 409, title: "Changed by another request at the same time" },
  IDEMPOTENCY_KEY_REUSED: { status: 422, title: "The idempotency key belongs to another request" },
  UNKNOWN_TASK_TYPE: { status: 400, title: "The task type is unknown" },
  SECRET_KEY_MISSING: { status: 422, title: "Passwords cannot be stored" },
  JOB_STATE: { status: 409, title: "The job's state does not allow this" },
  TOO_MANY_PAUSED: { status: 409, title: "Too many keys are paused" },
  TOO_MANY_ENDPOINTS: { status: 409, title: "Too many endpoints are paused, disabled or limited" },
  TOO_MANY_SCHEDULES: { status: 409, title: "Too many schedules" },
  IDEMPOTENCY_MISMATCH: { status: 422, title: "The idempotency key was used with another request" },
  PASSWORD_CONFLICT: { status: 409, title: "The password was changed at the same time" },
  BODY_TOO_LARGE: { status: 413, title: "The body is too large" },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: "The content type is not supported" },
  UNKNOWN_HOST: { status: 421, title: "This host is not served here" },
  TOO_MANY_LOGINS: { status: 429, title: "Too many failed logins" },
  TOO_MANY_TOKENS: { status: 409, title: "Too many API tokens" },
  TOO_MANY_STREAMS: { status: 429, title: "Too many event streams", retryAfter: 5 },
  HEADERS_TOO_LARGE: { status: 431, title: "The headers are too large" },
  INTERNAL: {
    status: 500,
    title: "Internal error",
    detail: "The request failed. The portal's log has the reason under the request id.",
  },
  OVERLOADED: { status: 503, title: "Overloaded", retryAfter: 1 },
  NOT_CONNECTED: {
    ...REDIS_AWAY,
    detail: "The portal has lost its Redis and is reconnecting. Nothing was changed.",
  },
  CONNECTION_LOST: {
    ...REDIS_AWAY,
    detail:
      "The portal lost its Redis during the request. The change may or may not have been made.",
  },
  CONNECTION_CLOSED: { ...REDIS_AWAY, detail: "The portal is shutting down. Nothing was changed." },
  OUT_OF_MEMORY: {
    status: 503,
    title: "Redis is out of memory",
    detail: "Redis has no memory left. Nothing was stored. Queued work is still processed.",
    retryAfter: 5,
  },
  STORE_UNAVAILABLE: {
    status: 503,
    title: "The cluster's store cannot be reached",
    detail:
      "The portal cannot reach the cluster's store. The change may or may not have been made.",
    retryAfter: 1,
  },
  STORE_REFUSED: {
    status: 503,
    title: "The cluster's store refused the request",
    detail: "The cluster's store refused the request. The portal's log says why.",
    retryAfter: 5,
  },
  SERVER_REPLY: {
    ...REDIS_AWAY,
    title: "Redis refused the command",
    detail: "Redis refused the command for now: it is loading, read-only, or out of memory.",
  },
  TIMEOUT: {
    status: 504,
    title: "Timed out",
    detail: "The operation timed out. The change may or may not have been made.",
  },
  ABORTED: {
    status: 503,
    title: "The request was aborted",
    detail: "The request was aborted before it ended.",
  },
};

/** The first words of Redis errors that are temporary. */
const FOR_NOW = new Set([
  "OOM",
  "MISCONF",
  "LOADING",
  "READONLY",
  "BUSY",
  "TRYAGAIN",
  "MASTERDOWN",
  "CLUSTERDOWN",
  "NOREPLICAS",
]);

/** A problem with the headers of its response. */
export interface ProblemAnswer {
  readonly body: Problem;
  readonly headers: Readonly<Record<string, string>>;
}

/** The response to an error. */
export function problemOf(error: unknown, request: { id: string; url: string }): ProblemAnswer {
  const code = codeOf(error);
  const kind = PROBLEMS[code] as ProblemKind;
  const body: Problem = {
    type: `/docs#${code}`,
    title: kind.title,
    status: kind.status,
    detail: kind.detail ?? (error as Error).message,
    instance: pathOf(request.url),
    code,
    requestId: request.id,
    ...faultsOf(error),
    ...parameterOf(error),
  };
  return { body, headers: headersOf(error, kind) };
}

/** The path of a request's URL: the query may contain secrets. */
export function pathOf(url: string): string {
  const end = url.indexOf("?");
  return end < 0 ? url : url.slice(0, end);
}

function codeOf(error: unknown): string {
  if (!(error instanceof RopewayError)) return "INTERNAL";
  if (error instanceof ServerReplyError && !FOR_NOW.has(error.prefix)) return "INTERNAL";
  return Object.hasOwn(PROBLEMS, error.code) ? error.code : "INTERNAL";
}

/** The invalid parts of the request, if the error names them. */
function faultsOf(error: unknown): Pick<Problem, "errors"> {
  if (error instanceof InvalidRequestError) return { errors: [...error.faults] };
  // The argument of a library is a field of the body: config.from is /body/config/from.
  if (!(error instanceof InvalidArgumentError) || !/^config\b/.test(error.argument)) return {};
  const pointer = `/body/${error.argument.replaceAll(".", "/")}`;
  return { errors: [{ pointer, detail: error.message }] };
}

/** The parameter, if the error names one. */
function parameterOf(error: unknown): { parameter?: string } {
  const { parameter, argument } = (error ?? {}) as { parameter?: unknown; argument?: unknown };
  const name = parameter ?? argument;
  return typeof name === "string" ? { parameter: name } : {};
}

function headersOf(error: unknown, kind: ProblemKind): Record<string, string> {
  const headers: Record<string, string> = {};
  const { retryAfterMs } = error as { retryAfterMs?: number };
  if (retryAfterMs !== undefined) headers["retry-after"] = String(seconds(retryAfterMs));
  else if (kind.retryAfter !== undefined) headers["retry-after"] = String(kind.retryAfter);
  if (error instanceof MethodNotAllowedError) headers.allow = error.allow;
  // Not "Basic", although we take it: browsers would open a dialog of their own.
  if (kind.status === 401) headers["www-authenticate"] = 'Bearer realm="ropeway"';
  return headers;
}
