/** The command tree as completion sees it. A place is the path of names, such as "/config/example". */
import type { Command, Option } from "commander";

/** What can come at one place of a command line. */
export interface Place {
  /** "" for the root. */
  readonly path: string;
  readonly words: readonly Word[];
  readonly options: readonly Flag[];
}

/** A sub-command, or a word that an argument may be. */
export interface Word {
  readonly name: string;
  readonly summary: string;
}

export interface Flag {
  /** Such as --json; short forms are not completed. */
  readonly name: string;
  readonly summary: string;
  readonly takes: "nothing" | "path" | "word" | "other";
  /** What the value may be; of "word" only. */
  readonly values: readonly string[];
}

/** Flags of some places that are followed by one of the same words. */
export interface Choice {
  /** Each a place and a flag, such as "/merge/push --update". */
  readonly after: readonly string[];
  readonly values: readonly string[];
}

/** Every place of the tree, the root first. */
export function placesOf(command: Command, path: string = ""): Place[] {
  const choices = command.registeredArguments.flatMap(({ argChoices = [], description }) =>
    argChoices.map((name) => ({ name, summary: description })),
  );
  const children = command.commands.map((child) => ({
    name: child.name(),
    summary: child.description(),
  }));
  const place = {
    path,
    words: [...children, ...choices],
    options: command.options.filter(({ hidden }) => !hidden).map(flagFrom),
  };
  const below = command.commands.flatMap((child) => placesOf(child, `${path}/${child.name()}`));
  return [place, ...below];
}

function flagFrom({ long, short, flags, description, argChoices: values = [] }: Option): Flag {
  const value = /<([^>]+)>/.exec(flags)?.[1];
  const takes = values.length > 0 ? "word" : isPath(value) ? "path" : "other";
  const name = long ?? short ?? flags;
  return { name, summary: description, takes: value === undefined ? "nothing" : takes, values };
}

function isPath(placeholder: string | undefined): boolean {
  return placeholder === "path" || placeholder === "file";
}

/** The options of the whole tree that are followed by a value of that kind. */
export function flagsTaking(places: readonly Place[], takes: Flag["takes"]): string[] {
  const all = places.flatMap(({ options }) => options);
  return [...new Set(all.filter((flag) => flag.takes === takes).map(({ name }) => name))];
}

/** The flags that are followed by one of a few words. */
export function choicesOf(places: readonly Place[]): Choice[] {
  const all = new Map<string, { after: string[]; values: readonly string[] }>();
  for (const { path, options } of places) {
    for (const { name, takes, values } of options) {
      if (takes !== "word") continue;
      const choice = all.get(values.join(" ")) ?? { after: [], values };
      choice.after.push(`${path} ${name}`);
      all.set(values.join(" "), choice);
    }
  }
  return [...all.values()];
}
