/** Secrets from the environment or from a file of their own. */
import { fileText } from "./file-text.ts";
import type { LoadedSettings } from "./settings/load.ts";
import type { SettingKey } from "./settings/table.ts";

/** The secret itself, or what its file holds; undefined if neither is set. */
export function secretOf(
  { values }: LoadedSettings,
  key: SettingKey & `${string}.${"adminPassword" | "token" | "signingKeys" | "secretKey"}`,
  fileKey: SettingKey & `${string}File`,
): string | undefined {
  const file = values[fileKey];
  return values[key] ?? (file === undefined ? undefined : readSecret(file));
}

/** The text of a secret's file, without the line's end that editors add. */
export function readSecret(path: string): string {
  return fileText(path).replace(/\r?\n$/, "");
}
