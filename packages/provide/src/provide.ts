// Finds a program, or downloads it. The first of these that has it is used:
//
//   ROPEWAY_<PROGRAM>   the user chose an executable: this one, or an error
//   PATH                the machine's program, if it is new enough
//   programs folder     a program that an earlier call unpacked
//   apt, or brew        unpacked into the programs folder without root, or installed by Homebrew
import { rm } from "node:fs/promises";
import { ProgramUnavailableError } from "./errors.ts";
import { withLock } from "./lock.ts";
import {
  type ProvidedProgram,
  type ProvideOptions,
  type ResolvedProvideOptions,
  resolveProvideOptions,
} from "./options.ts";
import { type ProgramName, programOf } from "./program.ts";
import { openPartial } from "./programs-folder.ts";
import { Search } from "./search.ts";
import { Supplier } from "./supplier.ts";

/** A real program of that name: found on this machine, or downloaded. Throws ProgramUnavailableError. */
export async function provide(
  name: ProgramName,
  options: ProvideOptions = {},
): Promise<ProvidedProgram> {
  const [program] = await provideAll([name], options);
  return program as ProvidedProgram;
}

/** Several programs in the given order. Downloads share one read of the package lists. */
export async function provideAll(
  names: readonly ProgramName[],
  options: ProvideOptions = {},
): Promise<readonly ProvidedProgram[]> {
  const resolved = resolveProvideOptions(options);
  const searches = names.map((name) => new Search(programOf(name), resolved));
  const found = new Map<Search, ProvidedProgram>();
  for (const search of searches) {
    const program = await explained(search, resolved, () => search.onMachine());
    if (program !== undefined) found.set(search, program);
  }
  const missing = searches.filter((search) => !found.has(search));
  const [first] = missing;
  if (first !== undefined) {
    const brought = await explained(first, resolved, () => bringAll(missing, resolved));
    for (const [search, program] of brought) found.set(search, program);
  }
  return searches.map((search) => found.get(search) as ProvidedProgram);
}

async function bringAll(
  missing: readonly Search[],
  resolved: ResolvedProvideOptions,
): Promise<ReadonlyMap<Search, ProvidedProgram>> {
  return withLock(resolved, async () => {
    const partial = await openPartial(resolved.folder);
    try {
      const supplier = new Supplier(partial, resolved);
      const brought = new Map<Search, ProvidedProgram>();
      for (const search of missing) {
        // The previous holder of the lock, or the previous program of this call, may have downloaded it.
        const program = (await search.inProgramsFolder()) ?? (await supplier.bring(search));
        if (program === undefined) throw search.unavailable();
        brought.set(search, program);
      }
      return brought;
    } finally {
      // A stopped tool may have children that keep writing for a moment.
      await rm(partial, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
    }
  });
}

/** Converts external failures (timeout, the disk, a folder without write permission) into the search's error. */
async function explained<T>(
  search: Search,
  { callerSignal, signal, timeoutMs }: ResolvedProvideOptions,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (callerSignal?.aborted) throw callerSignal.reason;
    if (error instanceof ProgramUnavailableError) throw error;
    const { syscall, message } = error as NodeJS.ErrnoException;
    if (signal.aborted) search.passOver(`it timed out after ${timeoutMs / 1000} s`);
    else if (syscall !== undefined) search.passOver(message);
    else throw error;
    throw search.unavailable(error);
  }
}
