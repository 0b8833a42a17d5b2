/**
 * Permissions and roles, as pure functions. A permission is a resource and a verb, `task:operate`. A role is
 * a list of grants; a grant may have a star for either half, and every verb implies `view` of the same
 * resource, because an operator must see what they stop.
 *
 *   grant         covers
 *   task:operate  task:operate, task:view
 *   task:*        every verb on task
 *   *:view        viewing everything
 *
 * Each part of the portal declares its permissions together with the least of the built-in roles that
 * has them; each built-in role has all that the ones before it have.
 */
import { InvalidArgumentError } from "@ropeway/core";
import { RoutePermissionError } from "../errors.ts";

/** A resource and a verb. */
export type Permission = `${string}:${string}`;

/** What a route needs: a permission, or nothing. */
export type RouteAccess = Permission | "public";

/** The roles that every installation has, from least to most. */
export const BUILT_IN_ROLES = ["viewer", "operator", "admin"] as const;
/** The name of a role that always exists. */
export type BuiltInRole = (typeof BUILT_IN_ROLES)[number];

/** How a part declares one of its permissions. */
export interface PermissionSpec {
  /** The least role that has it; "everyone" is every account, whatever its role. */
  readonly least: BuiltInRole | "everyone";
  /** What it allows, as a sentence. */
  readonly means: string;
}

/** All permissions of a part. */
export type PermissionSpecs = Readonly<Record<Permission, PermissionSpec>>;

/** Marks a route with the permission it needs: `{ config: needs("task:operate") }`. */
export function needs(permission: RouteAccess): { readonly permission: RouteAccess } {
  return { permission };
}

/** Whether the grants of a role cover a permission. */
export function covers(grants: readonly string[], permission: Permission): boolean {
  const [resource, verb] = split(permission);
  return grants.some((grant) => {
    const [grantedResource, grantedVerb] = split(grant);
    if (grantedResource !== "*" && grantedResource !== resource) return false;
    return grantedVerb === "*" || grantedVerb === verb || verb === "view";
  });
}

function split(text: string): [string, string] {
  const colon = text.indexOf(":");
  return [text.slice(0, colon), text.slice(colon + 1)];
}

/** The roles and permissions of one installation. */
export class Policy {
  readonly #specs: Map<Permission, PermissionSpec>;
  readonly #roles: Map<string, readonly string[]>;

  /** `custom` maps the names of custom roles to their grants. */
  constructor(
    parts: readonly { readonly permissions?: PermissionSpecs }[],
    custom: Readonly<Record<string, readonly string[]>> = {},
  ) {
    this.#specs = new Map(
      parts.flatMap(({ permissions }) => Object.entries(permissions ?? {})) as [
        Permission,
        PermissionSpec,
      ][],
    );
    this.#roles = new Map([
      ...Object.entries(custom),
      ...BUILT_IN_ROLES.map((role): [string, readonly string[]] => [role, this.#builtIn(role)]),
    ]);
  }

  /** Every permission with its meaning. */
  get permissions(): ReadonlyMap<Permission, PermissionSpec> {
    return this.#specs;
  }

  /** Whether a role has a permission; a role or permission that does not exist has none. */
  allows(role: string, permission: Permission): boolean {
    const spec = this.#specs.get(permission);
    if (spec === undefined) return false;
    return spec.least === "everyone" || covers(this.#roles.get(role) ?? [], permission);
  }

  /** Whether every account has the permission, whatever its role. */
  isForEveryone(permission: Permission): boolean {
    return this.#specs.get(permission)?.least === "everyone";
  }

  /** Throws InvalidArgumentError for a grant that names what no part declares; a star stands for any half. */
  checkGrants(grants: readonly string[]): void {
    const known = [...this.#specs.keys()];
    const fits = (given: string, half: string) => given === "*" || given === half;
    for (const grant of grants) {
      const [resource, verb] = split(grant);
      const exists = known.some((permission) => {
        const [ownResource, ownVerb] = split(permission);
        return fits(resource, ownResource) && fits(verb, ownVerb);
      });
      if (exists) continue;
      const allowed = `one of ${known.sort().join(", ")}, or one with a star such as task:* or *:view`;
      throw new InvalidArgumentError("permissions", grant, allowed);
    }
  }

  /** Everything that a list of grants covers, and what everyone may do. */
  coveredBy(grants: readonly string[]): Permission[] {
    return [...this.#specs.keys()].filter(
      (permission) => this.isForEveryone(permission) || covers(grants, permission),
    );
  }

  /** Everything a role may do, for a user interface that shows only that. */
  allowedTo(role: string): Permission[] {
    return [...this.#specs.keys()].filter((permission) => this.allows(role, permission));
  }

  /** Throws for a route without a permission, or with one that no part declares: deny by default. */
  check(route: string, access: RouteAccess | undefined): void {
    if (access === "public") return;
    if (access === undefined) {
      throw new RoutePermissionError(route, "declares no permission; say needs(...) in its config");
    }
    if (!this.#specs.has(access)) {
      throw new RoutePermissionError(route, `asks for ${access}, which no part declares`);
    }
  }

  #builtIn(role: BuiltInRole): readonly string[] {
    const rank = BUILT_IN_ROLES.indexOf(role);
    return [...this.#specs]
      .filter(([, { least }]) => least !== "everyone" && BUILT_IN_ROLES.indexOf(least) <= rank)
      .map(([permission]) => permission);
  }
}
