/** Every error the portal can throw. What each becomes in HTTP is in http/problems.ts. */
import { RopewayError } from "@ropeway/core";
import { reasonOf, show } from "@ropeway/core/internal";

/** One thing that is wrong with a request. */
export interface RequestFault {
  /** A JSON pointer into the request: /body/name, /query/limit, /path/id, /header/name. */
  readonly pointer: string;
  readonly detail: string;
}

/** A part of the request does not fit the route's schema; nothing was done. */
export class InvalidRequestError extends RopewayError {
  readonly faults: readonly RequestFault[];

  constructor(faults: readonly RequestFault[]) {
    super("INVALID_REQUEST", faults.map(({ detail }) => detail).join("; "), {
      details: { faults },
    });
    this.faults = faults;
  }
}

/** The body is not JSON, or JSON that tries to change prototypes. */
export class InvalidJsonError extends RopewayError {
  constructor(cause: unknown) {
    super("INVALID_JSON", `the body is not valid JSON: ${reasonOf(cause)}`, { cause });
  }
}

/** The URL is invalid. */
export class InvalidUrlError extends RopewayError {
  constructor(url: string, cause: unknown) {
    super("INVALID_URL", `${show(url)} is not a URL path`, { cause, details: { url } });
  }
}

/** The path has no route. */
export class RouteNotFoundError extends RopewayError {
  constructor(method: string, path: string) {
    super("ROUTE_NOT_FOUND", `${method} ${path} not found`, { details: { method, path } });
  }
}

/** The path exists, but not for that method. */
export class MethodNotAllowedError extends RopewayError {
  readonly allow: string;

  constructor(method: string, path: string, allow: readonly string[]) {
    super(
      "METHOD_NOT_ALLOWED",
      `${method} is not allowed for ${path}; allowed: ${allow.join(", ")}`,
      {
        details: { method, path, allow },
      },
    );
    this.allow = allow.join(", ");
  }
}

/** The body is larger than the route accepts. */
export class BodyTooLargeError extends RopewayError {
  constructor(limit: number) {
    super("BODY_TOO_LARGE", `the body is larger than ${limit} bytes`, { details: { limit } });
  }
}

/** The body has a content type that the route does not read. */
export class UnsupportedMediaTypeError extends RopewayError {
  constructor(found: string | undefined) {
    super(
      "UNSUPPORTED_MEDIA_TYPE",
      `the content type is ${found === undefined ? "missing" : show(found)}, but must be application/json`,
      { details: { found } },
    );
  }
}

/** The route needs a signed-in account, and the request has no valid session, token or password. */
export class UnauthenticatedError extends RopewayError {
  constructor(why: string) {
    super("UNAUTHENTICATED", why);
  }
}

/** The user name or the password is wrong. The error does not say which. */
export class LoginFailedError extends RopewayError {
  constructor() {
    super("LOGIN_FAILED", "the user name or the password is wrong");
  }
}

/** Too many failed logins: passwords are not checked for a while. */
export class TooManyLoginsError extends RopewayError {
  readonly retryAfterMs: number;

  constructor(retryAfterMs: number) {
    super("TOO_MANY_LOGINS", `too many failed logins; try again in ${seconds(retryAfterMs)} s`, {
      details: { retryAfterMs },
    });
    this.retryAfterMs = retryAfterMs;
  }
}

/** The account's role does not have the permission that the route asks for. */
export class ForbiddenError extends RopewayError {
  constructor(role: string, permission: string) {
    super("FORBIDDEN", `the role ${show(role)} does not have the permission ${permission}`, {
      details: { role, permission },
    });
  }
}

/** The Host header names a host that this port does not serve, as in a DNS rebinding attack. */
export class UnknownHostError extends RopewayError {
  constructor(host: string) {
    super(
      "UNKNOWN_HOST",
      `the host ${show(host)} is not served here: add its name to portal.hosts if it is yours`,
      { details: { host } },
    );
  }
}

/** A browser sent the request from another site's page. */
export class CrossSiteError extends RopewayError {
  constructor(origin: string) {
    super(
      "CROSS_SITE",
      `a request from ${show(origin)} is refused: it is not a page of this server`,
      {
        details: { origin },
      },
    );
  }
}

/** What the request names, such as a queue or a namespace, does not exist. */
export class UnknownResourceError extends RopewayError {
  constructor(kind: string, name: string) {
    super("NOT_FOUND", `${kind} ${show(name)} not found`, { details: { kind, name } });
  }
}

/** The account does not exist. */
export class UnknownAccountError extends RopewayError {
  constructor(username: string) {
    super("UNKNOWN_ACCOUNT", `account ${show(username)} not found`, { details: { username } });
  }
}

/** The password was changed by someone else between reading and writing it. */
export class PasswordConflictError extends RopewayError {
  constructor(username: string) {
    super(
      "PASSWORD_CONFLICT",
      `the password of ${username} was changed at the same time; nothing was changed`,
      {
        details: { username },
      },
    );
  }
}

/** The account, or the address on a public route, has the maximum number of event streams open. */
export class TooManyStreamsError extends RopewayError {
  constructor(most: number) {
    super("TOO_MANY_STREAMS", `${most} event streams are open already; close one first`, {
      details: { most },
    });
  }
}

/** The account has the maximum number of API tokens. */
export class TooManyTokensError extends RopewayError {
  constructor(username: string, most: number) {
    super("TOO_MANY_TOKENS", `${username} has ${most} API tokens already; revoke one first`, {
      details: { username, most },
    });
  }
}

/** The text/event-stream format cannot represent the event. */
export class InvalidEventError extends RopewayError {
  constructor(field: string, value: string) {
    super("INVALID_EVENT", `the event's ${field} is ${show(value)}, but must be one line`, {
      details: { field, value },
    });
  }
}

/** A route was added without a permission, or with one that no part declares. */
export class RoutePermissionError extends RopewayError {
  constructor(route: string, why: string) {
    super("ROUTE_PERMISSION", `${route} ${why}`, { details: { route } });
  }
}

/** The portal could not listen: the port is taken, or the address is not this machine's. */
export class ListenFailedError extends RopewayError {
  constructor(address: string, cause: unknown) {
    super("LISTEN_FAILED", `cannot listen on ${address}: ${reasonOf(cause)}`, {
      cause,
      details: { address },
    });
  }
}

/** start() was called on a portal that was started or closed before. */
export class PortalStateError extends RopewayError {
  constructor(state: string) {
    super("PORTAL_STATE", `the portal cannot be started: it is ${state} already`, {
      details: { state },
    });
  }
}

/** What Retry-After says: whole seconds, never too early. */
export function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1_000));
}
