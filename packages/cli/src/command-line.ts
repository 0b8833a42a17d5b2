/**
 * A command line that cannot be understood, in one sentence. commander parses it; its messages do not name
 * the help of the right command, and it prints the help of `ropeway` for `ropeway upp --help`.
 */
import { closest, show } from "@ropeway/core/internal";
import type { Command, CommanderError } from "commander";
import { UsageError } from "./errors.ts";

/** The command that the words name, and the next word if it must be the name of a command. */
interface Place {
  readonly command: Command;
  readonly stranger: string | undefined;
}

/** The command that a command line names. Throws UsageError for a name that no command has. */
export function commandOf(program: Command, argv: readonly string[]): Command {
  const { command, stranger } = placeOf(program, argv);
  if (stranger === undefined) return command;
  const near = closest(
    stranger,
    command.commands.map((child) => child.name()),
  );
  const hint = near === undefined ? seeHelp(command) : `did you mean ${near}?`;
  throw new UsageError(`unknown command '${stranger}': ${hint}`);
}

function placeOf(program: Command, argv: readonly string[]): Place {
  let command = program;
  for (let i = 0; i < argv.length && command.commands.length > 0; i++) {
    const word = argv[i] ?? "";
    if (word.startsWith("-")) {
      if (word === "--") break;
      refuseMisplaced(command, word.replace(/=.*/s, ""));
      const takesValue = command.options.some(({ long, required }) => long === word && required);
      if (takesValue) i++;
      continue;
    }
    if (word === "help") continue;
    const child = command.commands.find((each) => [each.name(), ...each.aliases()].includes(word));
    if (child === undefined) return { command, stranger: word };
    command = child;
  }
  return { command, stranger: undefined };
}

/** `ropeway sync --from ...`: the option belongs to a command of the group, which is missing. */
function refuseMisplaced(group: Command, option: string): void {
  const has = ({ options }: Command) => options.some(({ long }) => long === option);
  if (has(group)) return;
  const owners = group.commands.filter(has).map((child) => child.name());
  if (owners.length === 0) return;
  const some = [...owners.slice(0, 3), ...(owners.length > 3 ? ["..."] : [])].join(", ");
  throw new UsageError(
    `unknown option '${option}': write it after a command (${some}); ${seeHelp(group)}`,
  );
}

const WRONG_OPTION =
  /^option '(?:-\w, )?(--[\w-]+).*?' argument '(.*)' is invalid\. Allowed choices are (.*)\.$/s;
const WRONG_WORD =
  /^command-argument value '(.*)' is invalid for argument '(.*)'\. Allowed choices are (.*)\.$/s;

/** commander's message about a command line, such as "error: unknown option '--prot'\n(Did you mean --port?)". */
export function sentenceOf({ message }: CommanderError, command: Command): string {
  const text = message.replace(/^error: /, "");
  const [, option, given, values] = WRONG_OPTION.exec(text) ?? [];
  if (option !== undefined) return `${option} is ${show(given)}, but must be one of ${values}`;
  const [, word, name, words] = WRONG_WORD.exec(text) ?? [];
  if (name !== undefined) return `${name} is ${show(word)}, but must be one of ${words}`;
  const [what = "", hint = ""] = text.split("\n");
  const near = /\(Did you mean (?:one of )?(.*)\?\)/.exec(hint)?.[1];
  const fault = what.replace(/\. Expected .*$/, "");
  return `${fault}: ${near === undefined ? seeHelp(command) : `did you mean ${near}?`}`;
}

function seeHelp(command: Command): string {
  const names: string[] = [];
  for (let at: Command | null = command; at !== null; at = at.parent) names.unshift(at.name());
  return `see \`${names.join(" ")} --help\``;
}
