/**
 * The settings in force, each with where it came from: defaults < ropeway.toml < environment < flags.
 * Every value is checked, also one that another source overrides.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { closest, show } from "@ropeway/core/internal";
import { MisplacedSecretError, SettingError, UnknownSettingError } from "../errors.ts";
import {
  currentKey,
  flagOf,
  formerVariableOf,
  partsOf,
  type SettingKey,
  type Settings,
  settingKeys,
  specOf,
  variableOf,
} from "./table.ts";
import { isTable, readTomlFile } from "./toml-file.ts";

/** Where settings are looked for. */
export interface SettingsSources {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly flags: Readonly<Partial<Record<SettingKey, string>>>;
  /** The folder that relative paths of the environment and flags start at. */
  readonly cwd: string;
  /** A settings file that must exist. @default ROPEWAY_CONFIG, else ropeway.toml if there is one */
  readonly file?: string | undefined;
}

/** The source of a setting's value. */
export interface Origin {
  readonly source: "default" | "file" | "environment" | "flag";
  /** Such as ropeway.toml:4, REDIS_URL or --port. */
  readonly where: string;
}

/** The settings in force. */
export interface LoadedSettings {
  readonly values: Settings;
  readonly origins: Readonly<Record<SettingKey, Origin>>;
  /** The settings file that was read. */
  readonly file: string | undefined;
  /** Sentences about names in the environment that look like misspelt settings. */
  readonly warnings: readonly string[];
}

const FILE_NAME = "ropeway.toml";
const FILE_VARIABLE = "ROPEWAY_CONFIG";
const PREFIX = "ROPEWAY_";

interface Said {
  readonly key: SettingKey;
  readonly value: unknown;
  readonly origin: Origin;
  readonly folder: string;
}

/** Reads and checks all sources. Throws SettingError for the first value that is not allowed. */
export function loadSettings(sources: SettingsSources): LoadedSettings {
  const file = settingsFile(sources);
  const values: Record<string, unknown> = {};
  const origins: Record<string, Origin> = {};
  const said = [
    ...fromDefaults(sources.cwd),
    ...(file === undefined ? [] : fromFile(file)),
    ...fromEnvironment(sources),
    ...fromFlags(sources),
  ];
  for (const { key, value, origin, folder } of said) {
    values[key] = value === undefined ? undefined : judge({ key, value, origin, folder });
    origins[key] = origin;
  }
  return {
    values: values as unknown as Settings,
    origins: origins as Record<SettingKey, Origin>,
    file,
    warnings: strangers(sources.env),
  };
}

/** The value as it may be printed, secrets masked. */
export function showSetting(key: SettingKey, value: unknown): string {
  return value === undefined ? "" : specOf(key).kind.show(value as never);
}

function settingsFile({ file, env, cwd }: SettingsSources): string | undefined {
  const named = file ?? env[FILE_VARIABLE];
  if (named) return resolve(cwd, named);
  const usual = resolve(cwd, FILE_NAME);
  return existsSync(usual) ? usual : undefined;
}

function fromDefaults(cwd: string): Said[] {
  const origin: Origin = { source: "default", where: "default" };
  return settingKeys.map((key) => ({ key, value: specOf(key).default, origin, folder: cwd }));
}

function fromFile(path: string): Said[] {
  const { entries, folder } = readTomlFile(path);
  const names = settingKeys.flatMap((key) => [key, specOf(key).formerly ?? key]);
  const sections = new Set(names.map((key) => partsOf(key).section));
  return entries.flatMap(({ key: given, value, where }) => {
    if (isTable(value) && sections.has(given)) return []; // a section with nothing in it
    const key = currentKey(given);
    if (key === undefined) throw new UnknownSettingError(given, where, nearest(given));
    return [{ key, value, origin: { source: "file" as const, where }, folder }];
  });
}

function fromEnvironment({ env, cwd }: SettingsSources): Said[] {
  return settingKeys.flatMap((key) => {
    // An empty variable counts as not set.
    const where = [variableOf(key), formerVariableOf(key) ?? ""].find((name) => env[name]);
    const text = where === undefined ? undefined : env[where];
    if (where === undefined || text === undefined) return [];
    const value = specOf(key).kind.parse(text);
    return [{ key, value, origin: { source: "environment" as const, where }, folder: cwd }];
  });
}

function fromFlags({ flags, cwd }: SettingsSources): Said[] {
  return settingKeys.flatMap((key) => {
    const text = flags[key];
    if (text === undefined) return [];
    const where = flagOf(key) ?? key;
    const value = specOf(key).kind.parse(text);
    return [{ key, value, origin: { source: "flag" as const, where }, folder: cwd }];
  });
}

function judge({ key, value, origin, folder }: Said): unknown {
  const { kind, orFile } = specOf(key);
  const allowed = kind.fault(value);
  if (allowed !== undefined) {
    const shown = typeof value === "string" ? kind.show(value as never) : show(value);
    throw new SettingError({ key, value: shown, allowed, where: origin.where });
  }
  if (origin.source !== "environment" && kind.holdsSecret(value as never)) {
    const file = orFile === undefined ? "" : ` or ${orFile}`;
    throw new MisplacedSecretError(key, origin.where, `use ${variableOf(key)}${file}`);
  }
  return kind.settle === undefined ? value : kind.settle(value as never, folder);
}

/** The setting that was probably meant: a similar key, or one of the same name in another section. */
function nearest(key: string): string | undefined {
  const { name } = partsOf(key);
  return closest(key, settingKeys) ?? settingKeys.find((known) => partsOf(known).name === name);
}

/** Other programs of ours read ROPEWAY_ names too, so only a name that is close to a setting is reported. */
function strangers(env: SettingsSources["env"]): string[] {
  const former = settingKeys.flatMap((key) => formerVariableOf(key) ?? []);
  const known = [...settingKeys.map(variableOf), ...former, FILE_VARIABLE];
  const endings = known.flatMap((name) =>
    name.startsWith(PREFIX) ? name.slice(PREFIX.length) : [],
  );
  return Object.keys(env).flatMap((name) => {
    if (!name.startsWith(PREFIX) || known.includes(name)) return [];
    const near = closest(name.slice(PREFIX.length), endings);
    return near === undefined ? [] : [`${name} is no setting: did you mean ${PREFIX}${near}?`];
  });
}
