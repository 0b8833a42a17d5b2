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
    throw unreadable(as, error);
  }
}

/** The UnreadableFileError for what the file system said about a path. */
export function unreadable(path: string, error: unknown): UnreadableFileError {
  if (error instanceof UnreadableFileError) return error;
  const { code = "" } = error as NodeJS.ErrnoException;
  return new UnreadableFileError(path, REASONS[code] ?? code, error);
}
