// A candidate is an executable that may be the program. It is accepted only if it runs, prints a version,
// and that version is new enough. Every executable, however it was found, is examined here.
import type { ProgramOrigin, ProvidedProgram, ResolvedProvideOptions } from "./options.ts";
import { PRODUCTS, type Program, productsOf } from "./program.ts";
import { timeoutSignal } from "./timeout-signal.ts";
import { runTool } from "./tool.ts";
import { compareVersions, parseVersion } from "./version.ts";

/** The first start of a browser from a cold disk is slow; a server replies at once. */
const PROBE_MS = 30_000;

export interface Candidate {
  readonly path: string;
  readonly origin: ProgramOrigin;
}

/** The program if the candidate can be used, else the reason why not. */
export async function examine(
  program: Program,
  { path, origin }: Candidate,
  resolved: ResolvedProvideOptions,
): Promise<ProvidedProgram | string> {
  let said: string;
  try {
    said = await askVersion(path, resolved);
  } catch (error) {
    resolved.signal.throwIfAborted();
    return `${path} does not run (${(error as Error).message})`;
  }
  const version = parseVersion(said);
  // Some systems ship Valkey under Redis's names, so the output decides, not the file name.
  const product = productsOf(program).find((each) => PRODUCTS[each].signature.test(said));
  if (version === undefined || product === undefined) return `${path} is not ${program.name}`;
  const { title, minimum } = PRODUCTS[product];
  if (compareVersions(version, minimum) < 0) {
    return `${path} is ${title} ${version} and ${minimum} is needed`;
  }
  const { name, variable } = program;
  return { name, command: [path], variable, product, version, origin };
}

async function askVersion(path: string, { signal, env }: ResolvedProvideOptions): Promise<string> {
  const bound = AbortSignal.any([signal, timeoutSignal(PROBE_MS)]);
  const { code, stdout, stderr } = await runTool([path, "--version"], { signal: bound, env });
  if (code !== 0) throw new Error(stderr.trim().split("\n").at(-1) || `exit code ${code}`);
  return stdout;
}
