import { readFileSync } from "node:fs";
import { UnreadableFileError } from "./errors.ts";

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: "file not found",
  EISDIR: "it is a directory",
  EACCES: "permission denied",
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
