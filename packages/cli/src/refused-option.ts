/** A library's refusal names its option; a person wants to know which setting that was. */
import { InvalidOptionError } from "@ropeway/core";
import { show } from "@ropeway/core/internal";
import { SettingError } from "./errors.ts";
import type { LoadedSettings } from "./settings/load.ts";
import type { SettingKey } from "./settings/table.ts";

/** Does the work; an InvalidOptionError about one of `options` becomes a SettingError. */
export async function namingSettings<T>(
  { origins }: LoadedSettings,
  options: Readonly<Record<string, SettingKey>>,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const key =
      error instanceof InvalidOptionError ? options[String(error.details.option)] : undefined;
    if (key === undefined) throw error;
    const { value, allowed } = (error as InvalidOptionError).details;
    const { where } = origins[key];
    throw new SettingError({ key, value: show(value), allowed: String(allowed), where });
  }
}
