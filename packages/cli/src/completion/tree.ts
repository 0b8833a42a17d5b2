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
  /** Such as --json; short forms are for fingers, not for completion. */
  readonly name: string;
  readonly summary: string;
  readonly takes: "nothing" | "path" | "other";
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
  const place = { path, words: [...children, ...choices], options: command.options.map(flagFrom) };
  const below = command.commands.flatMap((child) => placesOf(child, `${path}/${child.name()}`));
  return [place, ...below];
}

function flagFrom({ long, short, flags, description }: Option): Flag {
  const value = /<([^>]+)>/.exec(flags)?.[1];
  const takes = value === undefined ? "nothing" : isPath(value) ? "path" : "other";
  return { name: long ?? short ?? flags, summary: description, takes };
}

function isPath(placeholder: string): boolean {
  return placeholder === "path" || placeholder === "file";
}

/** The options of the whole tree that are followed by a value of that kind. */
export function flagsTaking(places: readonly Place[], takes: Flag["takes"]): string[] {
  const all = places.flatMap(({ options }) => options);
  return [...new Set(all.filter((flag) => flag.takes === takes).map(({ name }) => name))];
}
