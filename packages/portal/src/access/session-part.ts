/** Signing in and out, and the caller's own account: the routes under /api/session. */
import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { Login, OpenedSession, PasswordChange, Session } from "../contract.ts";
import { SMALL_BODY_BYTES } from "../http/body-budget.ts";
import { clearCookie, readCookie, setCookie } from "../http/cookie.ts";
import type { PortalApp, PortalPart } from "../part.ts";
import type { EventStreams } from "../sse.ts";
import type { Authenticator, Caller } from "./authenticator.ts";
import { deviceCookie, newDevice } from "./device.ts";
import { callerOf } from "./guard.ts";
import { needs, type PermissionSpecs } from "./permission.ts";
import { addressOf, placeOf } from "./place.ts";
import type { RightsFinder } from "./rights.ts";
import { sessionCookie } from "./session-cookie.ts";
import { noteSubject } from "./subject.ts";

const NO_BODY = z.undefined().describe("Done.");

/** What the part needs; rights know every part's permissions and so come last. */
export interface SessionPartPlan {
  readonly authenticator: Authenticator;
  readonly streams: EventStreams;
  rights(): RightsFinder;
}

/** The permissions of its routes. */
export const sessionPermissions: PermissionSpecs = {
  "session:view": { least: "everyone", means: "See who you are and what you may do." },
  "session:edit": { least: "everyone", means: "End your session and change your password." },
};

/** The part for sessions. */
export function sessionPart({ authenticator, streams, rights }: SessionPartPlan): PortalPart {
  const sessionOf = async (caller: Caller): Promise<Session> => {
    const { account, via, session, token } = caller;
    const { permissions, groups } = await rights().of(caller);
    const ends = token === undefined ? session?.expiresAt : token.expiresAt;
    return {
      username: account.username,
      role: account.role,
      permissions,
      groups: groups ?? null,
      via,
      expiresAt: ends === undefined || ends === null ? null : new Date(ends).toISOString(),
    };
  };
  return {
    name: "session",
    about: {
      en: "Sign in and out, see what you may do, change your password.",
      zh: "登录、退出、查看自己的权限、修改密码。",
    },
    permissions: sessionPermissions,
    routes(app) {
      addLogin(app, authenticator, sessionOf);
      app.get(
        "/api/session",
        {
          config: needs("session:view"),
          schema: { summary: "Show the current account", response: { 200: Session } },
        },
        (request) => sessionOf(callerOf(request)),
      );
      addLogout(app, authenticator, streams);
      addPasswordChange(app, authenticator, streams);
    },
  };
}

function addLogin(
  app: PortalApp,
  authenticator: Authenticator,
  sessionOf: (caller: Caller) => Promise<Session>,
): void {
  app.post(
    "/api/session",
    {
      config: needs("public"),
      bodyLimit: SMALL_BODY_BYTES,
      schema: { summary: "Sign in", body: Login, response: { 201: OpenedSession } },
    },
    async (request, reply) => {
      const { username, password, as = "cookie" } = request.body;
      const account = await authenticator.checkPassword({
        username,
        password,
        place: placeOf(addressOf(request)),
        device: readCookie(request.headers.cookie, deviceCookie(request).name),
      });
      const session = await authenticator.open(account);
      const via = as === "token" ? "bearer" : "cookie";
      if (as === "cookie") {
        const { name, attributes } = sessionCookie(request);
        const expires = new Date(session.expiresAt);
        const device = deviceCookie(request);
        reply.header("set-cookie", [
          setCookie(name, session.token, { ...attributes, expires }),
          setCookie(device.name, newDevice(account), device.attributes),
        ]);
      }
      const opened = await sessionOf({ account, via, session });
      return reply.code(201).send(as === "token" ? { ...opened, token: session.token } : opened);
    },
  );
}

function addLogout(app: PortalApp, authenticator: Authenticator, streams: EventStreams): void {
  app.delete(
    "/api/session",
    {
      config: needs("session:edit"),
      schema: { summary: "Sign out", response: { 204: NO_BODY } },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      noteSubject(request, "user", caller.account.username);
      await authenticator.end(caller);
      if (caller.session !== undefined) streams.endSession(caller.session.token);
      const { name, attributes } = sessionCookie(request);
      if (readCookie(request.headers.cookie, name) !== undefined) {
        reply.header("set-cookie", clearCookie(name, attributes));
      }
      return reply.code(204).send();
    },
  );
}

function addPasswordChange(
  app: PortalApp,
  authenticator: Authenticator,
  streams: EventStreams,
): void {
  app.put(
    "/api/session/password",
    {
      config: needs("session:edit"),
      schema: {
        summary: "Change your password",
        description: "Every other session of the account ends.",
        body: PasswordChange,
        response: { 204: NO_BODY },
      },
    },
    async (request, reply) => {
      const caller = callerOf(request);
      noteSubject(request, "user", caller.account.username);
      const { current, next } = request.body;
      await authenticator.changePassword(caller, credentialsOf(request, caller, current), next);
      streams.endAccount(caller.account.username, caller.session?.token);
      return reply.code(204).send();
    },
  );
}

function credentialsOf(request: FastifyRequest, { account }: Caller, password: string) {
  return {
    username: account.username,
    password,
    place: placeOf(addressOf(request)),
    device: readCookie(request.headers.cookie, deviceCookie(request).name),
  };
}
