/**
 * Help pages. A command's own arguments and options come first. The settings it reads and the options of
 * every command follow as a list of flags, because they are the same everywhere and
 * `ropeway config --help` describes them:
 *
 *   Usage: ropeway jobs add [options] <queue> <name> [data]
 *   what it does; explanation
 *   Arguments, Commands, Options        one line each
 *   Settings, Options of every command  flags only
 */
import { type Command, Help, type Option } from "commander";
import { coloured } from "./terminal/colour.ts";

/** The groups that options are shown in; options of no group are the command's own. */
export const SETTINGS = "Settings:";
export const EVERYWHERE = "Options of every command:";

type Item = readonly [term: string, description: string];

/** Formats the help of a command of ours. */
export class CommandHelp extends Help {
  /** Descriptions wrap even beside long terms: below commander's 40, they would run over the edge. */
  override minWidthToWrap = 20;
  /** Longer text below the description; see `paragraphs`. */
  explanation = "";
  /** Whether settings are described one by one: for the commands that are all about them. */
  describesSettings = false;

  override formatHelp(command: Command, helper: Help): string {
    const width = helper.helpWidth ?? 80;
    const options = (group: string | undefined) =>
      this.visibleOptions(command).filter((option) => option.helpGroupHeading === group);
    const itemOf = (option: Option): Item => [option.flags, this.optionDescription(option)];
    const isRoot = command.parent === null;
    const sections = [
      `${this.styleTitle("Usage:")} ${this.commandUsage(command)}`,
      this.boxWrap(this.commandDescription(command), width),
      ...paragraphs(this.explanation).map((text) => this.#paragraph(text, width)),
      this.#items("Arguments:", this.#arguments(command), helper),
      this.#items("Commands:", this.#commands(command), helper),
      this.#items("Options:", options(undefined).map(itemOf), helper),
      this.describesSettings
        ? this.#items(SETTINGS, options(SETTINGS).map(itemOf), helper)
        : this.#flags(SETTINGS, options(SETTINGS), width),
      isRoot
        ? this.#items(EVERYWHERE, options(EVERYWHERE).map(itemOf), helper)
        : this.#flags(EVERYWHERE, options(EVERYWHERE), width),
    ];
    return `${sections.filter((section) => section !== "").join("\n\n")}\n`;
  }

  override styleTitle(title: string): string {
    return coloured(title, "bold");
  }

  #arguments(command: Command): Item[] {
    return this.visibleArguments(command).map((each) => [
      this.argumentTerm(each),
      this.argumentDescription(each),
    ]);
  }

  #commands(command: Command): Item[] {
    return this.visibleCommands(command).map((each) => [
      [each.name(), ...each.registeredArguments.map(usageOf)].join(" "),
      this.subcommandDescription(each),
    ]);
  }

  #items(title: string, items: readonly Item[], helper: Help): string {
    if (items.length === 0) return "";
    const width = Math.max(...items.map(([term]) => term.length));
    const lines = items.map(([term, text]) => this.formatItem(term, width, text, helper));
    return [this.styleTitle(title), ...lines].join("\n");
  }

  #flags(title: string, options: readonly Option[], width: number): string {
    if (options.length === 0) return "";
    const flags = options.map(({ long, flags }) => long ?? flags).join(", ");
    const text = title === SETTINGS ? `${flags} (see \`ropeway config --help\`)` : flags;
    const lines = this.boxWrap(text, width - 2).split("\n");
    return [this.styleTitle(title), ...lines.map((line) => `  ${line}`)].join("\n");
  }

  #paragraph(text: string, width: number): string {
    return isExample(text) ? text : this.boxWrap(text, width);
  }
}

/**
 * The paragraphs of an explanation. Empty lines separate them, and so does the change from text to
 * lines that begin with two spaces, which are an example and stay as they are.
 */
export function paragraphs(explanation: string): string[] {
  const found: string[] = [];
  let previous = "";
  for (const line of explanation.split("\n")) {
    const goesOn = previous !== "" && line !== "" && isExample(previous) === isExample(line);
    if (goesOn) found.push(`${found.pop()}${isExample(line) ? "\n" : " "}${line}`);
    else if (line !== "") found.push(line);
    previous = line;
  }
  return found;
}

/** Whether a paragraph is an example. */
export function isExample(paragraph: string): boolean {
  return paragraph.startsWith("  ");
}

function usageOf(argument: Command["registeredArguments"][number]): string {
  const name = argument.name() + (argument.variadic ? "..." : "");
  return argument.required ? `<${name}>` : `[${name}]`;
}
