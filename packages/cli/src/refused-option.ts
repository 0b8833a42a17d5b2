/** Translates the option that a library refused into the setting or flag that the user gave. */
import { InvalidOptionError } from "@ropeway/core";
import { show } from "@ropeway/core/internal";
import { SettingError, type SettingFault, UsageError } from "./errors.ts";
import type { LoadedSettings } from "./settings/load.ts";
import { type SettingKey, specOf } from "./settings/table.ts";

/** Does the work; an InvalidOptionError about one of `options` becomes a SettingError. */
export function namingSettings<T>(
  settings: LoadedSettings,
  options: Readonly<Record<string, SettingKey>>,
  work: () => Promise<T>,
): Promise<T> {
  return renaming(options, work, ({ name, ...fault }) => refusedSetting(settings, name, fault));
}

/** The error for a setting whose value was refused. */
export function refusedSetting(
  { origins }: LoadedSettings,
  key: SettingKey,
  fault: Pick<SettingFault, "value" | "allowed">,
): SettingError {
  // A secret that was not set directly came from its file.
  const { orFile = key } = specOf(key);
  const { where } = origins[origins[key].source === "default" ? orFile : key];
  return new SettingError({ key, ...fault, where });
}

/** The flags of every list. */
const LIST_FLAGS = { cursor: "--cursor", limit: "--limit", search: "--search" };

/** The same for options that come from the command line: they become a UsageError. */
export function namingFlags<T>(
  options: Readonly<Record<string, string>>,
  work: () => Promise<T>,
): Promise<T> {
  return renaming({ ...LIST_FLAGS, ...options }, work, ({ name, value, allowed }) => {
    return new UsageError(`${name} is ${value}, but must be ${allowed}`);
  });
}

/** What a library refused, under the name that the user gave it. */
interface Refusal<N> {
  readonly name: N;
  readonly value: string;
  readonly allowed: string;
}

async function renaming<T, N extends string>(
  options: Readonly<Record<string, N>>,
  work: () => Promise<T>,
  errorOf: (refusal: Refusal<N>) => Error,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof InvalidOptionError)) throw error;
    const { option, value, allowed } = error.details;
    const name = options[String(option)];
    if (name === undefined) throw error;
    throw errorOf({ name, value: show(value), allowed: String(allowed) });
  }
}
