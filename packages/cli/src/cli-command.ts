/**
 * commander's Command with what every command of ours has: --json and the other global options, flags
 * for the settings it uses, and a handler that gets a Context. Parsing only finds out which handler is
 * meant (`chosen`); it runs afterwards, so that everything can be told apart: help, usage, the work.
 */
import { Command, Option } from "commander";
import type { Context } from "./context.ts";
import { flagOf, type SettingKey, specOf, variableOf } from "./settings/table.ts";

/** Does a command's work; the number is the exit code, nothing is 0. */
export type Handler = (context: Context) => Promise<number> | Promise<void>;

/** What the command line asks for. */
export interface Invocation {
  readonly handler: Handler;
  readonly arguments: readonly string[];
  /** The command's own options and the global ones. */
  readonly options: Readonly<Record<string, unknown>>;
  /** The settings given as flags. */
  readonly flags: Readonly<Partial<Record<SettingKey, string>>>;
}

const EVERYWHERE = "Options of every command:";

export class CliCommand extends Command {
  /** The settings this command has flags for. */
  readonly settingKeys: SettingKey[] = [];
  /** Of the root: what the last parse() asked for. */
  chosen: Invocation | undefined;

  constructor(name?: string) {
    super(name);
    this.exitOverride();
    this.addOption(new Option("--json", "print JSON").helpGroup(EVERYWHERE));
    this.addOption(new Option("--config <file>", "read this settings file").helpGroup(EVERYWHERE));
    this.addOption(new Option("--no-color", "print without colours").helpGroup(EVERYWHERE));
    this.addOption(new Option("--debug", "print the stack of an error").helpGroup(EVERYWHERE));
    this.helpOption("-h, --help", "print this help");
  }

  override createCommand(name?: string): CliCommand {
    return new CliCommand(name);
  }

  /** Adds the flags of settings that the command heeds. */
  uses(...keys: readonly SettingKey[]): this {
    for (const key of keys) {
      const flag = flagOf(key);
      if (flag === undefined) continue;
      const { kind, doc } = specOf(key);
      const [firstSentence = doc] = doc.split(/(?<=\.) /, 1);
      const text = `${firstSentence} [${variableOf(key)}]`;
      this.addOption(new Option(`${flag} <${kind.placeholder}>`, text).helpGroup("Settings:"));
      this.settingKeys.push(key);
    }
    return this;
  }

  /** Says what the command does when it is asked for. */
  runs(handler: Handler): this {
    return this.action(() => {
      const options = this.#given();
      const flags: Partial<Record<SettingKey, string>> = {};
      for (const key of this.settingKeys) {
        const option = this.options.find(({ long }) => long === flagOf(key));
        const text = option && options[option.attributeName()];
        if (typeof text === "string") flags[key] = text;
      }
      const root = this.#lineage().at(-1) as CliCommand;
      root.chosen = { handler, arguments: this.args, options, flags };
    });
  }

  /** `ropeway --json config` is `ropeway config --json`; what is written nearer is stronger. */
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
