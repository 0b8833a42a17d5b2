// macOS: Homebrew installs into the user's own folder, so it is used directly.
import { join } from "node:path";
import type { Candidate } from "./candidate.ts";
import { StepFailedError } from "./errors.ts";
import type { ResolvedProvideOptions } from "./options.ts";
import { PRODUCTS, type Program } from "./program.ts";
import { executablesOnPath, isExecutable } from "./search-path.ts";
import { mustRun } from "./tool.ts";

/** Executables of casks, which are not on PATH. */
const APPLICATIONS: Readonly<Record<string, string>> = {
  chromium: "/Applications/Chromium.app/Contents/MacOS/Chromium",
};

/** The `brew` on PATH, if there is one. */
export async function findBrew({ env }: ResolvedProvideOptions): Promise<string | undefined> {
  return (await executablesOnPath("brew", env.PATH))[0];
}

/** Installs the program's preferred product and returns the path of its executable. */
export async function installWithBrew(
  brew: string,
  program: Program,
  resolved: ResolvedProvideOptions,
): Promise<Candidate> {
  const [{ product, file }] = program.executables as [Program["executables"][number]];
  const { title, brew: words } = PRODUCTS[product];
  const env = { ...resolved.env, NONINTERACTIVE: "1", HOMEBREW_NO_AUTO_UPDATE: "1" };
  const options = { signal: resolved.signal, env };
  resolved.note(`Installing ${title} with brew`);
  await mustRun([brew, "install", "--quiet", ...words], options);
  const prefix = (await mustRun([brew, "--prefix"], options)).trim();
  for (const path of [join(prefix, "bin", file), APPLICATIONS[file]]) {
    if (path !== undefined && (await isExecutable(path))) return { path, origin: "brew" };
  }
  throw new StepFailedError(`brew installed ${words.at(-1)} without ${file}`);
}
