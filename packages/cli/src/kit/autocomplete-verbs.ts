/** What `ropeway autocomplete ...` does. */
import { type Fold, GroupMembers, RecentContacts } from "@ropeway/kit/autocomplete";
import type { Context } from "../context.ts";
import { durationOf } from "../duration.ts";
import { NotFoundError } from "../errors.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { plural } from "../terminal/plural.ts";
import { wholeNumber } from "../whole-number.ts";
import { keyPrefix } from "./key-prefix.ts";

export type AutocompleteVerb =
  | "members"
  | "count"
  | "add-member"
  | "use-member"
  | "remove-member"
  | "reindex"
  | "contacts"
  | "add-contact"
  | "remove-contact";

/** The names of the library's options on the command line. */
const FLAGS = {
  halfLifeMs: "--half-life",
  topPrefixes: "--top-prefixes",
  topLength: "--top-length",
  max: "--max",
};

async function withMembers(
  context: Context,
  work: (members: GroupMembers) => Promise<void>,
): Promise<void> {
  const { options } = context;
  const halfLifeMs = durationOf(options, "halfLife");
  const topPrefixes = wholeNumber(options, "topPrefixes");
  const topLength = wholeNumber(options, "topLength");
  const how = {
    prefix: keyPrefix(context),
    fold: options.fold as Fold,
    ranked: options.ranked === true,
    ...(halfLifeMs === undefined ? {} : { halfLifeMs }),
    ...(topPrefixes === undefined ? {} : { topPrefixes }),
    ...(topLength === undefined ? {} : { topLength }),
  };
  await using redis = await openRedis(await findRedis(context));
  await namingFlags(FLAGS, async () =>
    work(new GroupMembers(redis, context.arguments[0] ?? "", how)),
  );
}

async function withContacts(
  context: Context,
  work: (contacts: RecentContacts) => Promise<void>,
): Promise<void> {
  const { options } = context;
  const max = wholeNumber(options, "max", 1) ?? 100;
  const how = { prefix: keyPrefix(context), fold: options.fold as Fold, max };
  await using redis = await openRedis(await findRedis(context));
  await namingFlags(FLAGS, async () =>
    work(new RecentContacts(redis, context.arguments[0] ?? "", how)),
  );
}

function members(context: Context): Promise<void> {
  return withMembers(context, async (found) => {
    const empty = `no members found: add one with \`ropeway autocomplete add-member ${found.group} NAME\``;
    names(context, await found.search(...wanted(context)), empty);
  });
}

function count(context: Context): Promise<void> {
  const [group = ""] = context.arguments;
  return withMembers(context, async (found) => {
    const all = await found.count();
    context.output.details({ group, members: all }, { group, members: all });
  });
}

function addMember(context: Context): Promise<void> {
  const [group = "", member = ""] = context.arguments;
  return withMembers(context, async (found) => {
    const outcome = (await found.add(member)) ? "added" : "unchanged";
    const sentence = outcome === "added" ? `${member} added` : `${member} is a member already`;
    context.output.outcome(outcome, { group, member }, sentence);
  });
}

function useMember(context: Context): Promise<void> {
  const [group = "", member = ""] = context.arguments;
  return withMembers(context, async (found) => {
    await found.use(member);
    context.output.outcome("used", { group, member }, `use of ${member} counted`);
  });
}

function removeMember(context: Context): Promise<void> {
  const [group = "", member = ""] = context.arguments;
  return withMembers(context, async (found) => {
    if (!(await found.remove(member))) throw new NotFoundError("member", member);
    context.output.outcome("removed", { group, member }, `${member} removed`);
  });
}

function reindex(context: Context): Promise<void> {
  const [group = ""] = context.arguments;
  return withMembers(context, async (found) => {
    const read = await found.reindex();
    const sentence = `${plural(read, "member")} of ${group} indexed`;
    context.output.outcome("reindexed", { group, members: read }, sentence);
  });
}

function contacts(context: Context): Promise<void> {
  return withContacts(context, async (found) => {
    const empty = `no contacts found: add one with \`ropeway autocomplete add-contact ${found.user} NAME\``;
    names(context, await found.search(...wanted(context)), empty);
  });
}

function addContact(context: Context): Promise<void> {
  const [user = "", contact = ""] = context.arguments;
  return withContacts(context, async (found) => {
    await found.add(contact);
    context.output.outcome("added", { user, contact }, `${contact} added`);
  });
}

function removeContact(context: Context): Promise<void> {
  const [user = "", contact = ""] = context.arguments;
  return withContacts(context, async (found) => {
    if (!(await found.remove(contact))) throw new NotFoundError("contact", contact);
    context.output.outcome("removed", { user, contact }, `${contact} removed`);
  });
}

/** What a search takes. */
function wanted(context: Context): [start: string, options: { limit: number }] {
  return [context.arguments[1] ?? "", { limit: wholeNumber(context.options, "limit", 1) ?? 50 }];
}

function names(context: Context, found: readonly string[], empty: string): void {
  const items = found.map((name) => ({ name }));
  context.output.list({ items }, { columns: { NAME: ({ name }) => name }, empty });
}

export const verbs: Readonly<Record<AutocompleteVerb, (context: Context) => Promise<void>>> = {
  members,
  count,
  "add-member": addMember,
  "use-member": useMember,
  "remove-member": removeMember,
  reindex,
  contacts,
  "add-contact": addContact,
  "remove-contact": removeContact,
};
