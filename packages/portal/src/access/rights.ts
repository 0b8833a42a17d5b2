/**
 * What one caller may do: the grants of the account's role, cut down by those of the API token that was
 * used, and the groups both are limited to. Custom roles are read from the store for every
 * request, so a change takes effect on every portal immediately.
 */
import type { Caller } from "./authenticator.ts";
import { BUILT_IN_ROLES, covers, type Permission, type Policy } from "./permission.ts";
import type { CustomRole, Roles } from "./roles.ts";

/** The rights of one request. */
export interface Rights {
  /** Everything the caller may do. */
  readonly permissions: readonly Permission[];
  /** Only tasks and alerts of these groups; undefined for all. */
  readonly groups: readonly string[] | undefined;
}

/**
 * A permission of `wanted` that `own` does not have; undefined if there is none. An account that manages accounts and
 * roles can grant only its own permissions; otherwise user:edit would equal admin.
 */
export function beyond(own: Rights, wanted: Rights): string | undefined {
  const permission = wanted.permissions.find((one) => !own.permissions.includes(one));
  if (permission !== undefined || own.groups === undefined) return permission;
  const { groups } = own;
  if (wanted.groups === undefined) return "(in every group)";
  const group = wanted.groups.find((one) => !groups.includes(one));
  return group === undefined ? undefined : `(in the group ${group})`;
}

/** Finds the permissions of callers. */
export class RightsFinder {
  readonly #policy: Policy;
  readonly #roles: Roles;

  constructor(policy: Policy, roles: Roles) {
    this.#policy = policy;
    this.#roles = roles;
  }

  async of({ account, token }: Caller): Promise<Rights> {
    const ofRole = await this.ofRole(account.role);
    if (token === undefined) return ofRole;
    const limits = token.permissions ?? undefined;
    const permissions =
      limits === undefined
        ? ofRole.permissions
        : ofRole.permissions.filter(
            (one) => this.#policy.isForEveryone(one) || covers(limits, one),
          );
    return { permissions, groups: common(ofRole.groups, token.groups ?? undefined) };
  }

  /** The permissions of an account with this role; those of every account if the role does not exist. */
  async ofRole(role: string): Promise<Rights> {
    if ((BUILT_IN_ROLES as readonly string[]).includes(role)) {
      return { permissions: this.#policy.allowedTo(role), groups: undefined };
    }
    const { permissions = [], groups = null } = (await this.#roles.get(role)) ?? {};
    return this.granted({ permissions, groups });
  }

  /** The permissions of grants that are limited to groups; null is all groups. */
  granted(role: Pick<CustomRole, "permissions" | "groups">): Rights {
    return {
      permissions: this.#policy.coveredBy(role.permissions),
      groups: role.groups ?? undefined,
    };
  }
}

/** The groups in both; undefined is all groups, and an empty list is none. */
function common(
  one: readonly string[] | undefined,
  other: readonly string[] | undefined,
): readonly string[] | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  return one.filter((group) => other.includes(group));
}
