/**
 * The requests and responses of the HTTP API: a type for callers, and a schema of the same name that checks
 * requests and describes the API. The compiler keeps the two in step. Importing this module loads zod
 * and nothing of the server.
 */
import { z } from "zod";

/** RFC 9457: the body of every error, as application/problem+json. */
export interface Problem {
  /** A page about this kind of problem. */
  readonly type: string;
  /** The kind of problem in a few words. */
  readonly title: string;
  readonly status: number;
  /** What went wrong this time. */
  readonly detail: string;
  /** The path of the request. */
  readonly instance: string;
  /** A stable name to branch on. */
  readonly code: string;
  /** Finds this request in the log. */
  readonly requestId: string;
  /** The parameter that is wrong, if there is one. */
  readonly parameter?: string | undefined;
  /** What is wrong with which part of the request. */
  readonly errors?: readonly { readonly pointer: string; readonly detail: string }[] | undefined;
}
export const Problem: z.ZodType<Problem> = z
  .object({
    type: z.string().describe("A page about this kind of problem."),
    title: z.string().describe("The kind of problem in a few words."),
    status: z.int().describe("The HTTP status."),
    detail: z.string().describe("What went wrong this time."),
    instance: z.string().describe("The path of the request."),
    code: z.string().describe("A stable name to branch on."),
    requestId: z.string().describe("Finds this request in the log."),
    parameter: z.string().optional().describe("The parameter that is wrong, if there is one."),
    errors: z
      .array(z.object({ pointer: z.string(), detail: z.string() }))
      .optional()
      .describe("What is wrong with which part of the request."),
  })
  .describe("Every error has this shape and the content type application/problem+json.");

/** The process is alive. */
export interface Health {
  readonly status: "ok";
  readonly version: string;
}
export const Health: z.ZodType<Health> = z.object({
  status: z.literal("ok"),
  version: z.string(),
});

/** Whether the portal can do its work now. */
export interface Readiness {
  readonly ready: boolean;
  /** It is shutting down: send new requests elsewhere. */
  readonly draining: boolean;
  /** Only with ?verbose. */
  readonly probes?: readonly ProbeOutcome[] | undefined;
}

/** How one readiness probe went; `code` is the error's, if it failed. */
export interface ProbeOutcome {
  readonly name: string;
  readonly ok: boolean;
  readonly ms: number;
  readonly code?: string | undefined;
}
export const Readiness: z.ZodType<Readiness> = z.object({
  ready: z.boolean(),
  draining: z.boolean().describe("It is shutting down: send new requests elsewhere."),
  probes: z
    .array(
      z.object({
        name: z.string(),
        ok: z.boolean(),
        ms: z.number().describe("How long the probe took."),
        code: z.string().optional().describe("The error's code, if it failed."),
      }),
    )
    .optional()
    .describe("Only with ?verbose."),
});

/** The signed-in account and its permissions. */
export interface Session {
  readonly username: string;
  readonly role: string;
  /** Everything the role allows, such as session:view. */
  readonly permissions: readonly string[];
  /** The only groups whose tasks the account may see; null for all. */
  readonly groups: readonly string[] | null;
  /** How the request was authenticated. */
  readonly via: "cookie" | "bearer" | "basic" | "token";
  /** When the session ends at the latest; null without one. */
  readonly expiresAt: string | null;
}
const session = {
  username: z.string(),
  role: z.string(),
  permissions: z.array(z.string()).describe("Everything the role allows, such as session:view."),
  groups: z
    .array(z.string())
    .nullable()
    .describe("The only groups whose tasks the account may see; null for all."),
  via: z
    .enum(["cookie", "bearer", "basic", "token"])
    .describe("How the request was authenticated."),
  expiresAt: z.iso
    .datetime()
    .nullable()
    .describe("When the session ends at the latest; null without one."),
};
export const Session: z.ZodType<Session> = z.object(session);

/** The session that a login opened; the token is included only if the request asks for it. */
export interface OpenedSession extends Session {
  readonly token?: string | undefined;
}
export const OpenedSession: z.ZodType<OpenedSession> = z.object({
  ...session,
  token: z.string().optional().describe("Only when asked for, and only here."),
});

const secret = z.string().min(1).max(128).meta({ format: "password", writeOnly: true });

/** A login. The response sets a cookie, unless `as` asks for a token. */
export interface Login {
  readonly username: string;
  readonly password: string;
  readonly as?: "cookie" | "token" | undefined;
}
export const Login: z.ZodType<Login> = z.strictObject({
  username: z.string().min(1).max(64),
  password: secret,
  as: z
    .enum(["cookie", "token"])
    .optional()
    .describe("A cookie for browsers (the default), or a token for Authorization: Bearer."),
});

/** A new password for the calling account. */
export interface PasswordChange {
  readonly current: string;
  readonly next: string;
}
export const PasswordChange: z.ZodType<PasswordChange> = z.strictObject({
  current: secret,
  next: secret.min(8).describe("8 to 128 characters."),
});

export {
  Audit,
  AuditPage,
  CreatedToken,
  CreatedUser,
  NewRole,
  NewToken,
  NewUser,
  Role,
  RolePage,
  Token,
  TokenPage,
  User,
  UserEdit,
  UserPage,
} from "./access/access-contract.ts";
export { AlertView } from "./alerts/alerts-contract.ts";
export {
  ChatRoomView,
  FileTransferView,
  HeldLockView,
  SemaphoreUseView,
} from "./kit/kit-contract.ts";
export {
  AttemptPage,
  AttemptView,
  DeadLetterPage,
  DeadLetterView,
  type DeliveryRequestView,
  type DestinationView,
  EndpointPage,
  type EndpointView,
  MergeItem,
  MergeItemPage,
  MergeKey,
  MergeKeyDetail,
  MergeKeyPage,
  MergeScheduleBody,
  MergeSchedulePage,
  MergeScheduleView,
  MergeStatsView,
} from "./merge/merge-contract.ts";
export { NodeView } from "./nodes/nodes-contract.ts";
export {
  type RpcMethod,
  type RpcMethodStats,
  RpcNamespaces,
  type RpcService,
  RpcServices,
  type RpcWorker,
} from "./rpc/rpc-contract.ts";
export {
  NewTaskBody,
  TaskEditBody,
  type TaskKey,
  TaskKeyPage,
  TaskOffset,
  TaskPage,
  TaskView,
} from "./tasks/tasks-contract.ts";
