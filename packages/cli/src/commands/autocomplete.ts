import { Option } from "commander";
import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { AutocompleteVerb } from "../kit/autocomplete-verbs.ts";
import { redisKeys } from "../settings/table.ts";

/** `ropeway autocomplete ...`: group members and recent contacts, directly in their Redis. */
export function autocompleteCommand(): CliCommand {
  const autocomplete = defineCommand(
    "autocomplete",
    "Search and change the members of groups and the recent contacts of users",
  );
  for (const verb of [
    limited(group("members", "List the members of a group whose name begins with a string")),
    group("count", "Show how many members a group has"),
    ranking(group("add-member", "Add a member").argument("<member>", "the member")),
    ranking(group("use-member", "Count a use of a member").argument("<member>", "the member")),
    ranking(group("remove-member", "Remove a member").argument("<member>", "the member")),
    ranking(group("reindex", "Bring the indexes of a group in step with its members")),
    limited(user("contacts", "List the recent contacts whose name begins with a string")),
    user("add-contact", "Put a contact in front").argument("<contact>", "the contact"),
    user("remove-contact", "Remove a contact").argument("<contact>", "the contact"),
  ]) {
    autocomplete.addCommand(verb);
  }
  return autocomplete;
}

const PROGRAM =
  "Pass the same values as your program: they decide which keys are read and written.";

function group(name: AutocompleteVerb, summary: string): CliCommand {
  return verbOf(name, summary)
    .argument("<group>", "the group's name")
    .addOption(fold("none"))
    .option("--ranked", "the group ranks its members by use")
    .explains(PROGRAM);
}

function user(name: AutocompleteVerb, summary: string): CliCommand {
  return verbOf(name, summary)
    .argument("<user>", "whose contacts they are")
    .addOption(fold("case"))
    .option("--max <number>", "how many contacts are kept", "100")
    .explains(PROGRAM);
}

function limited(command: CliCommand): CliCommand {
  return command
    .argument("[start]", "the string; all names if it is left out", "")
    .option("--limit <number>", "the maximum number of names", "50");
}

function ranking(command: CliCommand): CliCommand {
  return command
    .option("--half-life <time>", "after this time a use counts half as much", "7d")
    .option("--top-prefixes <number>", "prefixes up to this many characters have a list", "5")
    .option("--top-length <number>", "how many members such a list keeps", "100");
}

function fold(byDefault: string): Option {
  return new Option("--fold <rule>", "how names are compared")
    .choices(["none", "case", "accents"])
    .default(byDefault);
}

function verbOf(name: AutocompleteVerb, summary: string): CliCommand {
  return defineCommand(name, summary)
    .uses(...redisKeys)
    .option("--key-prefix <prefix>", "the prefix of the keys")
    .runs(async (context) => (await import("../kit/autocomplete-verbs.ts")).verbs[name](context));
}
