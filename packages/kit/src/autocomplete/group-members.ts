/**
 * The members of a group by the beginning of their name, on the documented sorted set. The documented
 * search puts two markers into the set and works for a-z only; ZRANGEBYLEX needs no markers and takes
 * any Unicode. With `ranked`, the most used come first, from a short list per prefix.
 */

import { InvalidArgumentError, InvalidNameError, type Redis } from "@ropeway/core";
import { requireRedis } from "@ropeway/core/internal";
import { checkName, isWellFormed } from "../keyspace.ts";
import {
  type MembersOptions,
  resolveMemberSearch,
  resolveMembersOptions,
  type SearchOptions,
} from "./options.ts";
import { MembersStore } from "./store.ts";

/** Members of one group. */
export class GroupMembers {
  readonly group: string;
  readonly #store: MembersStore;

  constructor(redis: Redis, group: string, options?: MembersOptions) {
    requireRedis(redis);
    this.group = group;
    this.#store = new MembersStore(redis, group, resolveMembersOptions(options));
  }

  /**
   * Adds a member. Returns false if it was there already. If the connection is lost before the reply comes, the
   * command is sent again, and false can also mean that its first run has added the member.
   */
  async add(member: string): Promise<boolean> {
    checkMember(member);
    return this.#store.change("add", member);
  }

  /** Removes a member. Returns false if it was not there. It is sent again in the same way. */
  async remove(member: string): Promise<boolean> {
    checkMember(member);
    return this.#store.change("remove", member);
  }

  /**
   * Counts a use of a member, and adds it if it is new; for groups with `ranked`. Throws ConnectionLostError if the
   * connection is lost before the reply comes: the use may have been counted.
   */
  async use(member: string, weight: number = 1): Promise<void> {
    checkMember(member);
    if (!(Number.isFinite(weight) && weight > 0)) {
      throw new InvalidArgumentError("weight", weight, "a number above 0");
    }
    await this.#store.change("use", member, weight);
  }

  /** Members whose name begins with the prefix, at most `limit`; for "" the first members. */
  async search(start: string, options?: SearchOptions): Promise<readonly string[]> {
    const { limit } = resolveMemberSearch(options);
    if (typeof start !== "string" || !isWellFormed(start)) {
      throw new InvalidArgumentError("start", start, "a Unicode string");
    }
    return this.#store.search(start, limit);
  }

  /** How many members there are. */
  count(): Promise<number> {
    return this.#store.count();
  }

  /**
   * Brings the indexes of `fold` and `ranked` in step with members that documented programs added or removed.
   * Returns how many members it read.
   */
  async reindex(): Promise<number> {
    await this.#each("folded", (member) => this.#store.change("prune", member));
    await this.#each("scores", (member) => this.#store.change("prune", member));
    return this.#each("members", (member) => this.#store.change("index", member));
  }

  /** Does something with every member of a set; returns how many there were. */
  async #each(
    of: "members" | "folded" | "scores",
    work: (member: string) => Promise<unknown>,
  ): Promise<number> {
    let read = 0;
    for (let cursor = "0"; ; ) {
      const page = await this.#store.scan(of, cursor);
      await Promise.all(page.members.map(work));
      read += page.members.length;
      cursor = page.cursor;
      if (cursor === "0") return read;
    }
  }
}

function checkMember(member: unknown): asserts member is string {
  checkName("the member", member);
  if (member.includes("\0")) {
    throw new InvalidNameError("the member", member, "a string without NUL");
  }
}
