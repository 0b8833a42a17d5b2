/**
 * commander's Command with what every command of ours has: --json and the other global options, flags
 * for the settings it uses, and a handler that gets a Context. Parsing only finds out which handler is
 * meant (`chosen`); it runs afterwards, so that help, usage errors and the work itself are handled
 * separately.
 */
import { Command, Option } from "commander";
import { CommandHelp, EVERYWHERE, SETTINGS } from "./command-help.ts";
import type { Context } from "./context.ts";
import { flagOf, formerFlagOf, type SettingKey, specOf, variableOf } from "./settings/table.ts";

/** Does a command's work; the number is the exit code, nothing is 0. */
export type Handler = (context: Context) => Promise<number> | Promise<void>;

/** The handler that the command line names, with its arguments and options. */
export interface Invocation {
  readonly handler: Handler;
  readonly arguments: readonly string[];
  /** The command's own options and the global ones. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The settings given as flags. */
  readonly flags: Readonly<Partial<Record<SettingKey, string>>>;
}

/** The options that every command has. */
export function globalOptions(): Option[] {
  return [
    new Option("--json", "print JSON"),
    new Option("--config <file>", "read this settings file"),
    new Option("--no-color", "print without colours"),
    new Option("--debug", "print the stack of an error"),
  ].map((option) => option.helpGroup(EVERYWHERE));
}

/** The option with values to show and complete. Its value is checked elsewhere. */
export function offering(option: Option, words: readonly string[]): Option {
  option.argChoices = [...words];
  return option;
}

/** A command of ours. */
export class CliCommand extends Command {
  /** The text that explains() was given. */
  explanation = "";
  /** The settings this command has flags for. */
  readonly settingKeys: SettingKey[] = [];
  /** Whether help describes the settings one by one, instead of naming their flags in one line. */
  #describesSettings = false;
  /** The command that the last parse() found; on the root only. */
  chosen: Invocation | undefined;

  constructor(name?: string) {
    super(name);
    this.exitOverride();
    this.addHelpOption(new Option("-h, --help", "print this help").helpGroup(EVERYWHERE));
  }

  override createCommand(name?: string): CliCommand {
    return new CliCommand(name);
  }

  override createHelp(): CommandHelp {
    const help = new CommandHelp();
    help.describesSettings = this.#describesSettings;
    help.explanation = this.explanation;
    return Object.assign(help, this.configureHelp());
  }

  /** Adds what every command has, to this one and all below; after their own, which help shows first. */
  complete(): this {
    for (const option of globalOptions()) this.addOption(option);
    if (this.commands.length > 0) this.helpCommand("help [command]", "Print the help of a command");
    for (const child of this.commands) (child as CliCommand).complete();
    return this;
  }

  /** Makes help describe each setting, for a command such as `up` that reads most of them. */
  describesSettings(): this {
    this.#describesSettings = true;
    return this;
  }

  /** Adds the flags of settings that the command reads. */
  uses(...keys: readonly SettingKey[]): this {
    for (const key of keys) {
      const flag = flagOf(key);
      if (flag === undefined) continue;
      const { kind, doc } = specOf(key);
      const [firstSentence = doc] = doc.split(/(?<=\.) /, 1);
      const text = `${firstSentence} [${variableOf(key)}]`;
      const option = new Option(`${flag} <${kind.placeholder}>`, text).helpGroup(SETTINGS);
      this.addOption(kind.words === undefined ? option : offering(option, kind.words));
      const former = formerFlagOf(key);
      if (former !== undefined) {
        this.addOption(new Option(`${former} <${kind.placeholder}>`).hideHelp());
      }
      this.settingKeys.push(key);
    }
    return this;
  }

  /** More than the one line of the description, for help and the reference; see `paragraphs`. */
  explains(text: string): this {
    this.explanation = text;
    return this;
  }

  /** Sets the handler that does the command's work. */
  runs(handler: Handler): this {
    return this.action(() => {
      const options = this.#given();
      const flags: Partial<Record<SettingKey, string>> = {};
      for (const key of this.settingKeys) {
        for (const flag of [formerFlagOf(key), flagOf(key)]) {
          const option = this.options.find(({ long }) => long === flag);
          const text = option && options[option.attributeName()];
          if (typeof text === "string") flags[key] = text;
        }
      }
      const root = this.#lineage().at(-1) as CliCommand;
      root.chosen = { handler, arguments: this.args, options, flags };
    });
  }

  /** `ropeway --json config` is `ropeway config --json`. The option nearest to the command wins. */
  #given(): Record<string, unknown> {
    const given: Record<string, unknown> = {};
    for (const command of this.#lineage().reverse()) {
      for (const [name, value] of Object.entries(command.opts())) {
        const isDefault = command.getOptionValueSource(name) === "default";
        if (!isDefault || !Object.hasOwn(given, name)) given[name] = value;
      }
    }
    return given;
  }

  /** This command, its parent, and so on up to the root. */
  #lineage(): Command[] {
    const lineage: Command[] = [];
    for (let command: Command | null = this; command !== null; command = command.parent) {
      lineage.push(command);
    }
    return lineage;
  }
}

/** A command with its one-line description, to be filled in by its file. */
export function defineCommand(name: string, summary: string): CliCommand {
  return new CliCommand(name).description(summary);
}
