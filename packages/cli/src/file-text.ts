import { readFileSync } from "node:fs";
import { UnreadableFileError } from "./errors.ts";

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "there is no such file",
  EISDIR: "it is a folder",
  EACCES: "this user may not read it",
};

/** The text of a file; one that cannot be read is an UnreadableFileError that names it, or `as`. */
export function fileText(path: string, as: string = path): string {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    const { code = "" } = error as NodeJS.ErrnoException;
    throw new UnreadableFileError(as, REASONS[code] ?? code, error);
  }
}
