/** Options of autocomplete. */
import { flag, integer, type OptionTable, oneOf, resolveOptions } from "@ropeway/core/internal";
import { prefixSpec } from "../keyspace.ts";
import type { Fold } from "./fold.ts";

/** How recent contacts are kept. */
export interface ContactsOptions {
  /** In front of every key. @default "" */
  readonly prefix?: string;
  /** How many contacts are kept. @default 100 */
  readonly max?: number;
  /** How names are compared: as they are, without case, or without case and accents. @default "case" */
  readonly fold?: Fold;
}

/** How members are found. Use the same values in every process. */
export interface MembersOptions {
  /** In front of every key; on Cluster it needs a hash tag if `ranked`, as in "{shop}". @default "" */
  readonly prefix?: string;
  /** How names are compared: as they are, without case, or without case and accents. @default "none" */
  readonly fold?: Fold;
  /** Return the most used members first, instead of in the order of names. @default false */
  readonly ranked?: boolean;
  /** After this time a use counts half as much. @default 604800000 (7 days) */
  readonly halfLifeMs?: number;
  /** Prefixes up to this many characters have a top list; longer ones are searched. @default 5 */
  readonly topPrefixes?: number;
  /** How many members a top list keeps. @default 100 */
  readonly topLength?: number;
}

/** How many names a search returns. */
export interface SearchOptions {
  /** At most this many. @default 10 for members, all for contacts */
  readonly limit?: number;
}

const fold = oneOf("none", "case", "accents");

const memberSearchTable: OptionTable<SearchOptions> = {
  limit: { default: 10, rule: integer(1, 1_000) },
};

const contactSearchTable: OptionTable<SearchOptions> = {
  limit: { default: 100, rule: integer(1) },
};

const contactsTable: OptionTable<ContactsOptions> = {
  prefix: prefixSpec,
  max: { default: 100, rule: integer(1, 10_000) },
  fold: { default: "case", rule: fold },
};

const membersTable: OptionTable<MembersOptions> = {
  prefix: prefixSpec,
  fold: { default: "none", rule: fold },
  ranked: { default: false, rule: flag },
  halfLifeMs: { default: 604_800_000, rule: integer(1_000) },
  topPrefixes: { default: 5, rule: integer(1, 20) },
  topLength: { default: 100, rule: integer(10, 1_000) },
};

/** The options of a search for members. */
export function resolveMemberSearch(given?: SearchOptions): Required<SearchOptions> {
  return resolveOptions(memberSearchTable, given);
}

/** The options of a search for contacts; `max` is how many are kept. */
export function resolveContactSearch(
  given: SearchOptions | undefined,
  max: number,
): Required<SearchOptions> {
  return resolveOptions(contactSearchTable, given, { limit: max });
}

export function resolveContactsOptions(given?: ContactsOptions): Required<ContactsOptions> {
  return resolveOptions(contactsTable, given);
}

export function resolveMembersOptions(given?: MembersOptions): Required<MembersOptions> {
  return resolveOptions(membersTable, given);
}
