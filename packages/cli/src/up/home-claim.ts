/**
 * At most one `ropeway up` per home. Node has no file locks, and a lock file that a crash leaves
 * behind cannot be removed safely: between looking and removing, another process may have replaced
 * it. So nobody shares a file; each process has its own, named after itself:
 *
 *   up/4711-a1b2c3d4t98765.json     { state: "asking" | "holding", url, queueUrl, redisUrl }
 *
 *   1. write our file, state "asking"
 *   2. look at the others: a file whose process is gone is removed (its name can never be anyone
 *      else's, so that is always safe)
 *   3. nobody else -> "holding". Someone holds -> refuse. Someone asks -> withdraw, and after a
 *      random pause ask again.
 *
 * Two cannot both hold: of two that both looked and saw nobody, the later writer wrote after the
 * earlier one had looked, hence after the earlier one had written, and so must have seen it.
 */
import { randomInt } from "node:crypto";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sleep } from "@ropeway/core/internal";
import { AlreadyRunningError } from "../errors.ts";
import type { Home } from "./home.ts";
import { birthOf, isAlive, type ProcessBirth } from "./process-birth.ts";

/** What the holder tells others. */
export interface ClaimNote {
  /** The portal. */
  readonly url?: string;
  /** The merge queue. */
  readonly queueUrl?: string;
  /** The Redis, without a password; other commands find it here. */
  readonly redisUrl?: string;
}

interface Claim extends ClaimNote {
  readonly process: ProcessBirth;
  readonly state: "asking" | "holding";
}

const ROUNDS = 20;

/** A home that is ours until close(). */
export class HomeClaim implements AsyncDisposable {
  readonly #home: Home;
  readonly #process: ProcessBirth;

  private constructor(home: Home, self: ProcessBirth) {
    this.#home = home;
    this.#process = self;
  }

  /** Takes the home, or says who has it. */
  static async take(home: Home): Promise<HomeClaim> {
    const self = await birthOf(process.pid);
    if (self === undefined) throw new Error(`cannot find our own process ${process.pid}`);
    const claim = new HomeClaim(home, self);
    for (let round = 1; ; round++) {
      await claim.#write("asking", {});
      const [rival] = (await claimsIn(home)).filter(({ process: { pid } }) => pid !== self.pid);
      if (rival === undefined) break;
      await claim.close();
      if (rival.state === "holding" || round === ROUNDS) {
        throw new AlreadyRunningError(home.path, rival.process.pid, rival.url);
      }
      await sleep(randomInt(10, 100));
    }
    await claim.tell({});
    return claim;
  }

  /** Tells others what runs here. */
  tell(note: ClaimNote): Promise<void> {
    return this.#write("holding", note);
  }

  close(): Promise<void> {
    return rm(this.#file(), { force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Renamed into place: a reader never sees half a file. */
  async #write(state: Claim["state"], note: ClaimNote): Promise<void> {
    const partial = `${this.#file()}.partial`;
    await writeFile(partial, `${JSON.stringify({ state, ...note })}\n`, { mode: 0o600 });
    await rename(partial, this.#file());
  }

  #file(): string {
    const { pid, birth } = this.#process;
    return join(this.#home.claims, `${pid}-${birth}.json`);
  }
}

/** What runs in the home, if anything does. */
export async function holderOf(home: Home): Promise<(ClaimNote & ProcessBirth) | undefined> {
  const holder = (await claimsIn(home)).find(({ state }) => state === "holding");
  return holder === undefined ? undefined : { ...holder, ...holder.process };
}

/** The claims of living processes; those of dead ones are removed. */
async function claimsIn(home: Home): Promise<Claim[]> {
  const names = await readdir(home.claims).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  const claims: Claim[] = [];
  for (const name of names) {
    const match = /^(\d+)-(\w+)\.json(\.partial)?$/.exec(name);
    if (match === null) continue;
    const owner = { pid: Number(match[1]), birth: match[2] ?? "" };
    const path = join(home.claims, name);
    if (!(await isAlive(owner))) await rm(path, { force: true });
    else if (match[3] === undefined) claims.push(...(await readClaim(path, owner)));
  }
  return claims;
}

/** Empty if it was withdrawn since we saw its name. */
async function readClaim(path: string, owner: ProcessBirth): Promise<Claim[]> {
  try {
    return [{ ...JSON.parse(await readFile(path, "utf8")), process: owner }];
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return [];
    throw error;
  }
}
