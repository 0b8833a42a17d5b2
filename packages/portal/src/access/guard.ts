/**
 * The one place where a request is allowed. It runs before the body is read, so that a refused request
 * costs little. It checks host and origin, then the caller, then the permission.
 */
import type { FastifyReply, FastifyRequest } from "fastify";
import {
  ForbiddenError,
  LoginFailedError,
  RoutePermissionError,
  UnauthenticatedError,
} from "../errors.ts";
import { readCookie } from "../http/cookie.ts";
import type { Auditor } from "./auditor.ts";
import type { Authenticator } from "./authenticator.ts";
import type { HostGuard } from "./host-guard.ts";
import { addressOf, placeOf } from "./place.ts";
import type { Rights, RightsFinder } from "./rights.ts";
import { sessionCookie } from "./session-cookie.ts";
import { isLimited } from "./tokens.ts";

/** Allows a request, or throws the reason. */
export type Guard = (request: FastifyRequest, reply: FastifyReply) => Promise<void>;

/** What the guard uses. */
export interface GuardPlan {
  readonly hosts: HostGuard;
  readonly authenticator: Authenticator;
  readonly rights: RightsFinder;
  readonly auditor: Auditor;
}

/** Makes the guard of one portal. */
export function guard({ hosts, authenticator, rights, auditor }: GuardPlan): Guard {
  return async (request, reply) => {
    const refusal = hosts.refusal(request);
    if (refusal !== undefined) throw refusal;
    if (request.is404) return;
    const { permission } = request.routeOptions.config;
    if (permission === undefined) throw new RoutePermissionError(request.url, "has no permission");
    if (permission === "public") return auditor.begin(request, reply);
    const caller = await authenticator
      .identify(
        request.headers.authorization,
        readCookie(request.headers.cookie, sessionCookie(request).name),
        placeOf(addressOf(request)),
      )
      .catch((error: unknown) => {
        if (error instanceof LoginFailedError) auditor.loginFailed(request, error);
        throw error;
      });
    if (caller === undefined) {
      throw new UnauthenticatedError("sign in, or send an Authorization header");
    }
    request.caller = caller;
    request.rights = await rights.of(caller);
    if (!request.rights.permissions.includes(permission)) {
      await auditor.refused(request, 403);
      throw new ForbiddenError(caller.account.role, permission);
    }
    await auditor.begin(request, reply);
  };
}

/** A request whose body took longer than this is checked again. */
const LATE_MS = 1_000;

/**
 * Checks the caller again if the body arrived late. A client has a minute to send it, and could otherwise keep a
 * request open until its account has been removed, and send the rest then.
 */
export function lateGuard({
  authenticator,
  rights,
}: Pick<GuardPlan, "authenticator" | "rights">): Guard {
  return async (request, reply) => {
    if (request.caller === null || reply.elapsedTime < LATE_MS) return;
    const { permission = "public" } = request.routeOptions.config;
    const caller = await authenticator.refreshed(request.caller);
    if (caller === undefined) {
      throw new UnauthenticatedError("the account, session or token ended before the body arrived");
    }
    request.caller = caller;
    request.rights = await rights.of(caller);
    if (permission !== "public" && !request.rights.permissions.includes(permission)) {
      throw new ForbiddenError(caller.account.role, permission);
    }
  };
}

/** Whether the guard would still allow the request and show it the same; for streams, which stay open. */
export async function isStillAllowed(
  request: FastifyRequest,
  { authenticator, rights }: Pick<GuardPlan, "authenticator" | "rights">,
): Promise<boolean> {
  const { permission } = request.routeOptions.config;
  if (request.caller === null || permission === undefined || permission === "public") return true;
  const caller = await authenticator.refreshed(request.caller);
  if (caller === undefined) return false;
  const { permissions, groups } = await rights.of(caller);
  const sameGroups = JSON.stringify(groups) === JSON.stringify(request.rights?.groups);
  return permissions.includes(permission) && sameGroups;
}

/** The caller of a route that is not public. */
export function callerOf(request: FastifyRequest): NonNullable<FastifyRequest["caller"]> {
  if (request.caller === null) throw new UnauthenticatedError("the route is public");
  return request.caller;
}

/** Whether the caller is an admin, and did not come with a token that can do less. */
export function isAdmin(request: FastifyRequest): boolean {
  const { account, token } = callerOf(request);
  return account.role === "admin" && (token === undefined || !isLimited(token));
}

/** What the caller of a route that is not public may do. */
export function rightsOf(request: FastifyRequest): Rights {
  if (request.rights === null) throw new UnauthenticatedError("the route is public");
  return request.rights;
}
