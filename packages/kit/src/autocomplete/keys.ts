/** Every key of autocomplete. `recent:` and `members:` are the documented ones. */
import { beside, headOf } from "../keyspace.ts";

/** list: contacts of a user, newest first. */
export function recentKey(prefix: string, user: string): string {
  return `${headOf(prefix)}recent:${user}`;
}

/** The keys of one group. */
export interface GroupKeys {
  /** zset of score 0: member names, in the order of their bytes. */
  readonly members: string;
  /** zset of score 0: folded name NUL member; only with the option `fold`. */
  readonly folded: string;
  /** zset: member -> score; only with the option `ranked`. */
  readonly scores: string;
  /**
   * zset: member -> score, the best of one prefix; only with the option `ranked`. Begins with the number of
   * characters of the prefix: "a:b" in group "g" is not "b" in group "g:a".
   */
  top(start: string): string;
}

/** The keys of a group. */
export function groupKeys(prefix: string, group: string): GroupKeys {
  const head = headOf(prefix);
  const members = `${head}members:${group}`;
  const key = (family: string) =>
    beside(members, { head, family: `members-${family}`, name: group });
  return {
    members,
    folded: key("folded"),
    scores: key("scores"),
    top: (start) => `${key(`top${[...start].length}`)}:${start}`,
  };
}
