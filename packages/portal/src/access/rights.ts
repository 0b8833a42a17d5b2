/**
 * What one caller may do: the grants of the account's role, cut down by those of the API token that was
 * used, and the groups both are limited to. Roles of an operator's own are read from the store for every
 * request, so a change holds at once on every portal.
 */
import type { Caller } from "./authenticator.ts";
import { BUILT_IN_ROLES, covers, type Permission, type Policy } from "./permission.ts";
import type { Roles } from "./roles.ts";

/** The rights of one request. */
export interface Rights {
  /** Everything the caller may do. */
  readonly permissions: readonly Permission[];
  /** Only tasks and alerts of these groups; undefined for all. */
  readonly groups: readonly string[] | undefined;
}

/** Finds out what callers may do. */
export class RightsFinder {
  readonly #policy: Policy;
  readonly #roles: Roles;

  constructor(policy: Policy, roles: Roles) {
    this.#policy = policy;
    this.#roles = roles;
  }

  async of({ account, token }: Caller): Promise<Rights> {
    const { role } = account;
    const builtIn = (BUILT_IN_ROLES as readonly string[]).includes(role);
    const custom = builtIn ? undefined : await this.#roles.get(role);
    const ofRole = builtIn
      ? this.#policy.allowedTo(role)
      : this.#policy.coveredBy(custom?.permissions ?? []);
    const limits = token?.permissions ?? undefined;
    const permissions =
      limits === undefined
        ? ofRole
        : ofRole.filter((one) => this.#policy.isForEveryone(one) || covers(limits, one));
    const scopes = [custom?.groups ?? [], token?.groups ?? []].filter(
      (groups) => groups.length > 0,
    );
    const [first, second] = scopes;
    const groups = second === undefined ? first : first?.filter((group) => second.includes(group));
    return { permissions, groups };
  }
}
