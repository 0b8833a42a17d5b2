/** Custom roles, under /tasks/role/{name}: permissions, and the groups they apply to. */
import {
  AlreadyExistsError,
  type Entry,
  ProtectedError,
  type Store,
  type Transaction,
  UnknownRoleError,
} from "@ropeway/cluster";
import {
  createRecords,
  keys,
  lastPart,
  optimistically,
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
    return roleOf(await this.#store.get(keys.role(name)));
  }

  async list(): Promise<CustomRole[]> {
    const { entries } = await rangeAll(this.#store, keys.roles);
    return entries.map(roleOf).filter((role) => role !== undefined);
  }

  async create(role: CustomRole): Promise<CustomRole> {
    if (isBuiltIn(role.name.toLowerCase())) throw new AlreadyExistsError("role", role.name);
    const created = await createRecords(this.#store, { [keys.role(role.name)]: role });
    if (!created) throw new AlreadyExistsError("role", role.name);
    return role;
  }

  /** Removes a role that no account has. Each attempt calls `check` with the role; it throws to refuse the removal. */
  async remove(name: string, check?: (role: CustomRole) => void): Promise<void> {
    if (isBuiltIn(name)) throw new ProtectedError(`role ${name}`, "it is built in");
    const key = keys.role(name);
    await optimistically(this.#store, `role ${name}`, async () => {
      const entry = await this.#store.get(key);
      if (entry === undefined) throw new UnknownRoleError(name);
      const role = roleOf(entry);
      if (role !== undefined) check?.(role);
      const users = await rangeAll(this.#store, keys.users);
      const user = users.entries.find((one) => recordOf<{ role: string }>(one)?.role === name);
      if (user !== undefined) throw new ProtectedError(`role ${name}`, "an account has it");
      return { if: [unchanged(key, entry)], do: [{ op: "delete", key }], result: undefined };
    });
  }

  /**
   * What the transaction that gives the role to an account must contain. The role is written again, because a
   * removal that has not seen the account must fail. Throws if the role does not exist.
   */
  async giving(name: string): Promise<Required<Pick<Transaction, "if" | "do">>> {
    if (isBuiltIn(name)) return { if: [], do: [] };
    const key = keys.role(name);
    const entry = await this.#store.get(key);
    if (entry === undefined || roleOf(entry) === undefined) throw new UnknownRoleError(name);
    return { if: [unchanged(key, entry)], do: [{ op: "put", key, value: entry.value }] };
  }

  /** Throws if the role does not exist. */
  async check(name: string): Promise<void> {
    if (isBuiltIn(name) || (await this.get(name)) !== undefined) return;
    throw new UnknownRoleError(name);
  }
}

/**
 * The role in an entry; undefined if it cannot be told to which groups it is limited. Roles of all groups were
 * once stored with an empty list, and no role was ever one of no group.
 */
function roleOf(entry: Entry | undefined): CustomRole | undefined {
  const found = recordOf<Partial<Record<keyof CustomRole, unknown>>>(entry);
  if (entry === undefined || found === undefined) return undefined;
  const all = found.groups ?? [];
  const groups = wordsOf(all);
  if (!Array.isArray(all) || (all.length > 0 && groups.length === 0)) return undefined;
  return {
    name: lastPart(entry.key),
    permissions: wordsOf(found.permissions),
    groups: groups.length > 0 ? groups : null,
  };
}

/** The strings in a list. */
function wordsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

function isBuiltIn(name: string): boolean {
  return (BUILT_IN_ROLES as readonly string[]).includes(name);
}
