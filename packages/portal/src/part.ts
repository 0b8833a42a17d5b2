/**
 * A part of the portal. A part is one folder under src/ that exports one PortalPart: its routes, the
 * permissions they need, its metrics and its readiness probes. The portal's own functions (health,
 * metrics, sessions, description, home page) are parts like any other; see health/health-part.ts for
 * the smallest.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { FastifyBaseLogger, FastifyInstance, RawServerDefault } from "fastify";
import type { ZodTypeProvider } from "fastify-type-provider-zod";
import type { Registry } from "prom-client";
import type { Caller } from "./access/authenticator.ts";
import type { PermissionSpecs, RouteAccess } from "./access/permission.ts";
import type { Rights } from "./access/rights.ts";

/** The Fastify that a part adds its routes to: schemas are zod's, and type the handlers. */
export type PortalApp = FastifyInstance<
  RawServerDefault,
  IncomingMessage,
  ServerResponse,
  FastifyBaseLogger,
  ZodTypeProvider
>;

/** Resolves if the checked resource is ready. Rejects with the reason if not. */
export type Probe = () => Promise<unknown>;

/** One part of the portal. */
export interface PortalPart {
  /** The tag of its routes in the API's description. */
  readonly name: string;
  /** One sentence for the description and the home page. */
  readonly about: { readonly en: string; readonly zh: string };
  /** The permissions that its routes can need. */
  readonly permissions?: PermissionSpecs;
  /** Readiness probes: /readyz responds with 503 while one of them rejects. */
  readonly probes?: Readonly<Record<string, Probe>>;
  /** Adds its routes, each with `config: needs(...)`; hooks and parsers stay inside the part. */
  routes?(app: PortalApp): void | Promise<void>;
  /** Adds its metrics. */
  metrics?(registry: Registry): void;
  /** Stops its background work; called when no request is under way. */
  close?(): Promise<void>;
}

declare module "fastify" {
  interface FastifyContextConfig {
    /** The permission of the route; without it the portal does not start. */
    permission?: RouteAccess;
    /** Set for a route with its own time limit, such as /readyz, which reports a Redis that hangs. */
    ownBound?: boolean;
    /** How large its response may be, for a route with large pages: those that are being read are limited. */
    pageBytes?: number;
  }
  interface FastifyRequest {
    /** The caller; null on public routes. */
    caller: Caller | null;
    /** The permissions of the caller; null on public routes. */
    rights: Rights | null;
    /** What the request changes, for the audit log; see access/subject.ts. */
    subject: string;
  }
}
