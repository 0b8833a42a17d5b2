/**
 * Every route of a portal, recorded as it is added. That makes three things possible: a route
 * without a permission is refused before the portal listens, a request with the wrong
 * method gets 405 with the allowed methods, and the reference lists all routes.
 */
import type { RouteOptions } from "fastify";
import type { Policy, RouteAccess } from "../access/permission.ts";
import { needs } from "../access/permission.ts";
import { MethodNotAllowedError } from "../errors.ts";
import type { PortalApp } from "../part.ts";
import { pathOf } from "./problems.ts";

/** One route. */
export interface ListedRoute {
  readonly method: string;
  readonly url: string;
  readonly permission: RouteAccess;
  readonly summary: string | undefined;
}

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/** The routes of one portal. */
export class RouteTable {
  readonly #policy: Policy;
  readonly #routes: ListedRoute[] = [];
  #complete = false;

  constructor(policy: Policy) {
    this.#policy = policy;
  }

  /** The routes that parts have added; HEAD, which comes with every GET, is left out. */
  get routes(): readonly ListedRoute[] {
    return this.#routes.filter(({ method }) => method !== "HEAD");
  }

  /** Records a route. Throws if it declares no permission. */
  add({ method, url, config, schema }: RouteOptions): void {
    if (this.#complete) return; // one of the refusals below
    const methods = [method].flat();
    const permission = config?.permission;
    this.#policy.check(`${methods.join(", ")} ${url}`, permission);
    for (const one of methods) {
      const known = permission as RouteAccess; // check() has thrown otherwise
      this.#routes.push({ method: one, url, permission: known, summary: schema?.summary });
    }
  }

  /** Adds a 405 for every method that a known path does not take; no route comes after these. */
  refuseOtherMethods(app: PortalApp): void {
    this.#complete = true;
    for (const [url, routes] of groupByUrl(this.#routes)) {
      const allow = METHODS.filter((method) => routes.some((route) => route.method === method));
      const refused = METHODS.filter((method) => !allow.includes(method));
      app.route({
        method: refused,
        url,
        config: needs("public"),
        schema: { hide: true },
        // In this hook, so that a client gets it without signing in or sending a body.
        onRequest: async (request) => {
          throw new MethodNotAllowedError(request.method, pathOf(request.url), allow);
        },
        handler: async () => undefined,
      });
    }
  }
}

function groupByUrl(routes: readonly ListedRoute[]): Map<string, ListedRoute[]> {
  const groups = new Map<string, ListedRoute[]>();
  for (const route of routes) groups.set(route.url, [...(groups.get(route.url) ?? []), route]);
  return groups;
}
