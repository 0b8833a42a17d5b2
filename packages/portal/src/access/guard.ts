/**
 * The one place where a request is let in. It runs before the body is read, so that what is refused
 * costs nothing: first its host and origin, then who is calling, then what they may do.
 */
import type { FastifyRequest } from "fastify";
import { ForbiddenError, RoutePermissionError, UnauthenticatedError } from "../errors.ts";
import { readCookie } from "../http/cookie.ts";
import type { Authenticator } from "./authenticator.ts";
import type { HostGuard } from "./host-guard.ts";
import type { Policy } from "./permission.ts";
import { placeOf } from "./place.ts";
import { sessionCookie } from "./session-cookie.ts";

/** Lets a request in, or throws why not. */
export type Guard = (request: FastifyRequest) => Promise<void>;

/** What the guard asks. */
export interface GuardPlan {
  readonly hosts: HostGuard;
  readonly authenticator: Authenticator;
  readonly policy: Policy;
}

/** Makes the guard of one portal. */
export function guard({ hosts, authenticator, policy }: GuardPlan): Guard {
  return async (request) => {
    const refusal = hosts.refusal(request);
    if (refusal !== undefined) throw refusal;
    if (request.is404) return;
    const { permission } = request.routeOptions.config;
    if (permission === undefined) throw new RoutePermissionError(request.url, "has no permission");
    if (permission === "public") return;
    const caller = await authenticator.identify(
      request.headers.authorization,
      readCookie(request.headers.cookie, sessionCookie(request).name),
      placeOf(request.ip),
    );
    if (caller === undefined) {
      throw new UnauthenticatedError("sign in, or send an Authorization header");
    }
    if (!policy.allows(caller.account.role, permission)) {
      throw new ForbiddenError(caller.account.role, permission);
    }
    request.caller = caller;
  };
}

/** The caller of a route that is not public. */
export function callerOf(request: FastifyRequest): NonNullable<FastifyRequest["caller"]> {
  if (request.caller === null) throw new UnauthenticatedError("the route is public");
  return request.caller;
}
