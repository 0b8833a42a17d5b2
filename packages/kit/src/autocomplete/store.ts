/** All Redis traffic of autocomplete. */
import type { Redis } from "@ropeway/core";
import { checkName, checkSlots } from "../keyspace.ts";
import { refused } from "../store/refused.ts";
import { folded, startsOf } from "./fold.ts";
import { type GroupKeys, groupKeys, recentKey } from "./keys.ts";
import type { MembersOptions } from "./options.ts";
import { changeScript, rankScript, rememberScript, useScript } from "./scripts.ts";

/** Members that one search of a ranked group looks at when its prefix has no top list. */
const LOOK_AT = 1_000;
/** Room for the markers that documented programs leave in the set while they search. See also rank.lua. */
const MARKERS = 20;
/** How many markers in front of the members of a prefix a search looks behind. */
const MOST_SKIPPED = 10_000;
const MARKER = /\{[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** One list of recent contacts. */
export class ContactsStore {
  readonly #redis: Redis;
  readonly #key: string;

  constructor(redis: Redis, user: string, prefix: string) {
    checkName("the user", user);
    this.#redis = redis;
    this.#key = recentKey(prefix, user);
  }

  async remember(contact: string, max: number): Promise<void> {
    const running = this.#redis.run(rememberScript, [this.#key], [contact, max]);
    await refused({ what: "a contact", key: this.#key }, running);
  }

  async forget(contact: string): Promise<boolean> {
    const command = ["LREM", this.#key, "0", contact];
    return (await this.#redis.send<number>(command, { repeatable: true, key: this.#key })) > 0;
  }

  list(max: number): Promise<readonly string[]> {
    const command = ["LRANGE", this.#key, "0", String(max - 1)];
    return this.#redis.send(command, { repeatable: true, key: this.#key });
  }
}

/** One group. */
export class MembersStore {
  readonly #redis: Redis;
  readonly #keys: GroupKeys;
  readonly #options: Required<MembersOptions>;

  constructor(redis: Redis, group: string, options: Required<MembersOptions>) {
    checkName("the group", group);
    this.#redis = redis;
    this.#keys = groupKeys(options.prefix, group);
    this.#options = options;
    const { members, folded: index, scores, top } = this.#keys;
    checkSlots(redis, [members, index, scores, top("a")]);
  }

  /** Adds, counts or removes a member; true if it is new, or was there. */
  async change(
    verb: "add" | "use" | "remove" | "index" | "prune",
    member: string,
    weight: number = 1,
  ): Promise<boolean> {
    const { ranked, halfLifeMs, topPrefixes, topLength, fold } = this.#options;
    const { members, folded: index, scores, top } = this.#keys;
    const plain = folded(member, fold);
    const tops = ranked ? startsOf(plain, topPrefixes).map(top) : [];
    const entry = fold === "none" ? "" : `${plain}\0${member}`;
    const args = [verb, member, entry, ranked ? halfLifeMs : 0, weight, topLength];
    const script = verb === "use" ? useScript : changeScript;
    const running = this.#redis.run(script, [members, index, scores, ...tops], args);
    return (await refused({ what: "a member", key: members }, running)) === 1;
  }

  /** Members whose name begins with the prefix. One command, whose cost does not depend on the size of the group. */
  async search(start: string, limit: number): Promise<readonly string[]> {
    const { ranked, fold, topPrefixes, topLength } = this.#options;
    const plain = folded(start, fold);
    const characters = [...plain].length;
    if (!ranked) return this.#inOrder(plain, limit);
    const { members, folded: index, scores, top } = this.#keys;
    if (characters === 0) {
      const command = ["ZREVRANGE", scores, "0", String(limit - 1)];
      return this.#redis.send(command, { repeatable: true, key: members });
    }
    const listed = characters <= topPrefixes && limit <= topLength;
    const keys = [fold === "none" ? members : index, scores, top(listed ? plain : "")];
    const args = [...rangeOf(plain), LOOK_AT, limit, fold === "none" ? "0" : "1"];
    return this.#redis.run(rankScript, keys, [...args, listed ? "1" : "0"]);
  }

  /** Some members as they are stored, or as an index has them. The markers of a search are none. */
  async scan(
    of: "members" | "folded" | "scores",
    cursor: string,
  ): Promise<{ cursor: string; members: readonly string[] }> {
    const command = ["ZSCAN", this.#keys[of], cursor, "COUNT", "500"];
    const options = { repeatable: true, key: this.#keys.members };
    const [next, flat] = await this.#redis.send<[string, string[]]>(command, options);
    const entries = flat.filter((entry, i) => i % 2 === 0 && !MARKER.test(entry));
    const members =
      of === "folded" ? entries.map((entry) => entry.slice(entry.indexOf("\0") + 1)) : entries;
    return { cursor: next, members };
  }

  count(): Promise<number> {
    const { members } = this.#keys;
    return this.#redis.send(["ZCARD", members], { repeatable: true, key: members });
  }

  /** One command, and more only after markers of searches that were interrupted, which are never removed. */
  async #inOrder(plain: string, limit: number): Promise<readonly string[]> {
    const { members, folded: index } = this.#keys;
    const byName = this.#options.fold === "none";
    const key = byName ? members : index;
    const most = limit + MARKERS;
    const all: string[] = [];
    for (let first = 0; first <= MOST_SKIPPED; first += most) {
      const page = ["LIMIT", String(first), String(most)];
      const command = ["ZRANGEBYLEX", key, ...rangeOf(plain), ...page];
      const found = await this.#redis.send<readonly string[]>(command, { repeatable: true, key });
      all.push(...found.filter((entry) => !MARKER.test(entry)));
      if (all.length >= limit || found.length < most) break;
    }
    const names = byName ? all : all.map((entry) => entry.slice(entry.indexOf("\0") + 1));
    return names.slice(0, limit);
  }
}

/** The range of all strings with this prefix: no byte of UTF-8 is 0xff. */
function rangeOf(start: string): [string | Buffer, string | Buffer] {
  if (start === "") return ["-", "+"];
  const from = Buffer.from(`[${start}`);
  return [from, Buffer.concat([from, Buffer.from([0xff])])];
}
