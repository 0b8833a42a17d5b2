// The search for one program on this machine. It keeps every candidate that was skipped, and why: if the
// search finds nothing, the error message lists these reasons.
import { resolve } from "node:path";
import { type Candidate, examine } from "./candidate.ts";
import { ProgramUnavailableError } from "./errors.ts";
import type { ProvidedProgram, ResolvedProvideOptions } from "./options.ts";
import { PRODUCTS, type Program, productsOf } from "./program.ts";
import { storedPrograms } from "./programs-folder.ts";
import { executablesOnPath } from "./search-path.ts";

export class Search {
  readonly program: Program;
  readonly #options: ResolvedProvideOptions;
  readonly #reasons: string[] = [];

  constructor(program: Program, resolved: ResolvedProvideOptions) {
    this.program = program;
    this.#options = resolved;
  }

  /** The program as named by the user, as installed on the machine, or as unpacked by an earlier call. */
  async onMachine(): Promise<ProvidedProgram | undefined> {
    return (await this.#named()) ?? (await this.#onPath()) ?? (await this.inProgramsFolder());
  }

  async inProgramsFolder(): Promise<ProvidedProgram | undefined> {
    return this.#firstFit(await storedPrograms(this.program, this.#options.folder));
  }

  /** Records why one source of the program failed. */
  passOver(reason: string): void {
    if (!this.#reasons.includes(reason)) this.#reasons.push(reason);
  }

  /** The error that ends a search without success. */
  unavailable(cause?: unknown): ProgramUnavailableError {
    const { name, variable, executables } = this.program;
    const [product] = productsOf(this.program).map((each) => PRODUCTS[each]);
    const reason = this.#reasons.join("; ") || "nothing was found";
    const ways = [
      `install it (Debian/Ubuntu: apt-get install ${product?.packages[0]}, macOS: brew install ${product?.brew.join(" ")})`,
      `set ${variable} to its path`,
      this.#options.otherwise,
    ].filter((way) => way !== undefined);
    const files = either(executables.map(({ file }) => file));
    const message = `No ${files} was found and none could be provided (${reason}): ${either(ways)}.`;
    return new ProgramUnavailableError({ program: name, reason, message, cause });
  }

  async #named(): Promise<ProvidedProgram | undefined> {
    const { name, variable } = this.program;
    const path = this.#options.env[variable];
    if (!path) return undefined;
    const candidate: Candidate = { path: resolve(path), origin: "env" };
    const found = await examine(this.program, candidate, this.#options);
    if (typeof found !== "string") return found;
    const message = `${variable} cannot be used because ${found}: set it to the path of a working ${name}, or unset it to have one found.`;
    throw new ProgramUnavailableError({ program: name, reason: found, message });
  }

  async #onPath(): Promise<ProvidedProgram | undefined> {
    for (const { file } of this.program.executables) {
      const paths = await executablesOnPath(file, this.#options.env.PATH);
      const found = await this.#firstFit(paths.map((path) => ({ path, origin: "path" as const })));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  async #firstFit(candidates: readonly Candidate[]): Promise<ProvidedProgram | undefined> {
    for (const candidate of candidates) {
      const found = await examine(this.program, candidate, this.#options);
      if (typeof found !== "string") return found;
      this.#options.note(`Not used: ${found}`);
      this.passOver(found);
    }
    return undefined;
  }
}

/** "a", "a or b", "a, b or c". */
function either(words: readonly string[]): string {
  return words.length < 2 ? words.join("") : `${words.slice(0, -1).join(", ")} or ${words.at(-1)}`;
}
