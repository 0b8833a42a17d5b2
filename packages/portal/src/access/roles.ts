/** Custom roles, under /tasks/role/{name}: permissions, and the groups they apply to. */
import { AlreadyExistsError, ProtectedError, type Store, UnknownRoleError } from "@ropeway/cluster";
import {
  absent,
  keys,
  optimistically,
  putRecord,
  rangeAll,
  recordOf,
  unchanged,
} from "@ropeway/cluster/internal";
import { BUILT_IN_ROLES } from "./permission.ts";

/** A custom role. */
export interface CustomRole {
  readonly name: string;
  /** Grants such as task:operate, task:* or *:view. */
  readonly permissions: readonly string[];
  /** Only tasks and alerts of these groups; null for all. */
  readonly groups: readonly string[] | null;
}

/** The roles of one installation. */
export class Roles {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async get(name: string): Promise<CustomRole | undefined> {
    const role = recordOf<CustomRole>(await this.#store.get(keys.role(name)));
    return role && roleOf(role);
  }

  async list(): Promise<CustomRole[]> {
    const { entries } = await rangeAll(this.#store, keys.roles);
    return entries
      .map((entry) => recordOf<CustomRole>(entry))
      .filter((role) => role !== undefined)
      .map(roleOf);
  }

  async create(role: CustomRole): Promise<CustomRole> {
    const key = keys.role(role.name);
    if (isBuiltIn(role.name.toLowerCase())) throw new AlreadyExistsError("role", role.name);
    const { succeeded } = await this.#store.txn({ if: [absent(key)], do: [putRecord(key, role)] });
    if (!succeeded) throw new AlreadyExistsError("role", role.name);
    return role;
  }

  /** Removes a role that no account has. */
  async remove(name: string): Promise<void> {
    if (isBuiltIn(name)) throw new ProtectedError(`role ${name}`, "it is built in");
    const key = keys.role(name);
    await optimistically(this.#store, `role ${name}`, async () => {
      const entry = await this.#store.get(key);
      if (entry === undefined) throw new UnknownRoleError(name);
      const users = await rangeAll(this.#store, keys.users);
      const user = users.entries.find((one) => recordOf<{ role: string }>(one)?.role === name);
      if (user !== undefined) throw new ProtectedError(`role ${name}`, "an account has it");
      return { if: [unchanged(key, entry)], do: [{ op: "delete", key }], result: undefined };
    });
  }

  /** Throws if the role does not exist. */
  async check(name: string): Promise<void> {
    if (isBuiltIn(name) || (await this.get(name)) !== undefined) return;
    throw new UnknownRoleError(name);
  }
}

/** Roles of all groups were once stored with an empty list, and no role was ever one of no group. */
function roleOf(stored: CustomRole): CustomRole {
  return { ...stored, groups: stored.groups?.length ? stored.groups : null };
}

function isBuiltIn(name: string): boolean {
  return (BUILT_IN_ROLES as readonly string[]).includes(name);
}
