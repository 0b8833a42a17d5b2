// Downloads programs that the machine does not have. Works under the lock of the programs folder and
// within one of its partial folders:
//
//   .partial-<random>/apt/       the private apt; its lists are read once for all programs of a call
//   .partial-<random>/redis/     the bundle under construction, renamed to its final place when it runs
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { AptArchive, hasApt } from "./apt-archive.ts";
import { findBrew, installWithBrew } from "./brew.ts";
import { makeBundle } from "./bundle.ts";
import { type Candidate, examine } from "./candidate.ts";
import { StepFailedError } from "./errors.ts";
import type { ProvidedProgram, ResolvedProvideOptions } from "./options.ts";
import { type ProductName, type Program, productsOf } from "./program.ts";
import { place } from "./programs-folder.ts";
import type { Search } from "./search.ts";

export class Supplier {
  readonly #partial: string;
  readonly #options: ResolvedProvideOptions;
  #archive: Promise<AptArchive> | undefined;

  constructor(partial: string, resolved: ResolvedProvideOptions) {
    this.#partial = partial;
    this.#options = resolved;
  }

  /** The new program; undefined if it is unavailable, with the reasons recorded in the search. */
  async bring(search: Search): Promise<ProvidedProgram | undefined> {
    const { program } = search;
    if (await hasApt()) {
      for (const product of productsOf(program)) {
        const found = await attempt(search, () => this.#fromDebian(program, product));
        if (found !== undefined) return found;
      }
      return undefined;
    }
    const brew = process.platform === "darwin" ? await findBrew(this.#options) : undefined;
    if (brew !== undefined) {
      return attempt(search, async () =>
        this.#fit(program, await installWithBrew(brew, program, this.#options)),
      );
    }
    search.passOver("neither apt nor brew was found to install it");
    return undefined;
  }

  async #fromDebian(program: Program, product: ProductName): Promise<ProvidedProgram> {
    const { note, folder } = this.#options;
    this.#archive ??= this.#openArchive();
    const bundle = join(this.#partial, product);
    await mkdir(bundle);
    const label = await makeBundle(product, bundle, { archive: await this.#archive, note });
    const [file] = program.executables.filter((each) => each.product === product);
    const starter = join("bin", file?.file ?? program.name);
    const origin = "debian";
    const found = await this.#fit(program, { path: join(bundle, starter), origin });
    const target = join(folder, `${product}-${label.version}`);
    await place(bundle, target);
    note(`${program.name} ${found.version} is ready in ${target}`);
    return { ...found, command: [join(target, starter)] };
  }

  async #openArchive(): Promise<AptArchive> {
    const folder = join(this.#partial, "apt");
    await mkdir(folder);
    return AptArchive.open(folder, this.#options);
  }

  async #fit(program: Program, candidate: Candidate): Promise<ProvidedProgram> {
    const found = await examine(program, candidate, this.#options);
    if (typeof found === "string") throw new StepFailedError(found);
    return found;
  }
}

/** A step that fails is a reason; other errors are passed on. */
async function attempt<T>(search: Search, step: () => Promise<T>): Promise<T | undefined> {
  try {
    return await step();
  } catch (error) {
    if (!(error instanceof StepFailedError)) throw error;
    search.passOver(error.message);
    return undefined;
  }
}
