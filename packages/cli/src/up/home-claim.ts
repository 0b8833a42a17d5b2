/**
 * At most one `ropeway up` per home, also if containers or hosts share it. Node has no file locks, and a
 * lock file that a crash leaves behind cannot be removed safely: between looking and removing, another
 * process may have replaced it. So nobody shares a file; each process has its own, with a random name:
 *
 *   up/TOKEN.json    { state: "asking" | "holding", pid, host, kernel, url, mergeUrl, redisUrl }
 *   up/TOKEN.sock    listens as long as the process lives (presence.ts); opened first, removed last
 *
 *   1. write our file, state "asking"
 *   2. look at the others: a file whose process is gone is removed (its name can never be anyone
 *      else's, so that is always safe)
 *   3. nobody else -> "holding". Someone holds -> refuse. Someone asks -> withdraw, and after a
 *      random pause ask again.
 *
 * Two cannot both hold: of two that both looked and saw nobody, the later writer wrote after the
 * earlier one had looked, hence after the earlier one had written, and so must have seen it.
 *
 * Only a claim of another host can be misjudged: if that host was suspended for the whole watch, it
 * counts as dead. It finds its claim gone when it wakes up, and then gives the home up (`lost`).
 */
import { randomBytes, randomInt } from "node:crypto";
import { readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { type Deferred, deferred, sleep } from "@ropeway/core/internal";
import { isDiskFull } from "../disk-full.ts";
import { AlreadyRunningError, DiskFullError, HomeLostError } from "../errors.ts";
import type { Home } from "./home.ts";
import { isListening, kernelId, PresenceSocket, touch, watchFile } from "./presence.ts";

/** What the holder publishes. */
export interface ClaimNote {
  /** The portal. */
  readonly url?: string;
  /** The merge queue. */
  readonly mergeUrl?: string;
  /** The Redis, without a password; other commands find it here. */
  readonly redisUrl?: string;
}

/** A process that holds a home or asks for it. */
interface Claimant {
  readonly pid: number;
  readonly host: string;
  readonly kernel: string;
  /** Whether it listens on a socket; not every file system has them. */
  readonly socket: boolean;
}

interface Claim extends ClaimNote, Claimant {
  readonly token: string;
  readonly state: "asking" | "holding";
}

/** How a home is taken. */
export interface TakeOptions {
  /** Called with a message before a wait of some seconds. */
  onWait?(sentence: string): void;
  /** How long a claim of another host is watched for a sign of life. @default 10000 */
  readonly watchMs?: number;
}

const ROUNDS = 20;
const TOUCH_MS = 1_000;
const WATCH_MS = 10_000;

/** A home that is ours until close(). */
export class HomeClaim implements AsyncDisposable {
  readonly #home: Home;
  readonly #token: string = randomBytes(8).toString("hex");
  readonly #lost: Deferred<never> = deferred();
  #self: Claimant | undefined;
  #socket: PresenceSocket | undefined;
  #beat: NodeJS.Timeout | undefined;
  /** Whether our file is there because we put it there. */
  #isWritten = false;

  private constructor(home: Home) {
    this.#home = home;
    this.#lost.promise.catch(() => {}); // its callers handle it
  }

  /** Takes the home. Throws AlreadyRunningError with its holder if it is taken. */
  static async take(home: Home, options: TakeOptions = {}): Promise<HomeClaim> {
    const claim = new HomeClaim(home);
    try {
      for (let round = 1; ; round++) {
        await claim.#ask();
        const [rival] = await livingClaims(home, { except: claim.#token, ...options });
        if (rival === undefined) break;
        await claim.close();
        if (rival.state === "holding" || round === ROUNDS) {
          throw new AlreadyRunningError(home.path, rival, rival.url);
        }
        await sleep(randomInt(10, 100));
      }
      await claim.tell({});
      return claim;
    } catch (error) {
      await claim.close();
      throw error;
    }
  }

  /** Rejects when another process has taken the home, because this one showed no sign of life for too long. */
  get lost(): Promise<never> {
    return this.#lost.promise;
  }

  /** Publishes what runs here. */
  tell(note: ClaimNote): Promise<void> {
    return this.#write("holding", note);
  }

  /** Releases the home. */
  async close(): Promise<void> {
    this.#isWritten = false;
    clearInterval(this.#beat);
    for (const file of [this.#file, `${this.#file}.partial`]) await rm(file, { force: true });
    await this.#socket?.close();
    this.#socket = undefined;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  get #file(): string {
    return join(this.#home.claims, `${this.#token}.json`);
  }

  async #ask(): Promise<void> {
    this.#socket = await PresenceSocket.open(join(this.#home.claims, `${this.#token}.sock`));
    const socket = this.#socket !== undefined;
    this.#self = { pid: process.pid, host: hostname(), kernel: await kernelId(), socket };
    await this.#write("asking", {});
    this.#beat = setInterval(() => this.#touch(), TOUCH_MS).unref();
  }

  #touch(): void {
    touch(this.#file, new Date()).then(
      (isThere) => isThere || this.#loseHome(),
      () => {}, // the disk is away: other processes cannot read it either
    );
  }

  #loseHome(): void {
    if (!this.#isWritten) return; // we removed it ourselves
    clearInterval(this.#beat);
    this.#lost.reject(new HomeLostError(this.#home.path));
  }

  /** Renamed into place: a reader never sees half a file. */
  async #write(state: Claim["state"], note: ClaimNote): Promise<void> {
    const partial = `${this.#file}.partial`;
    const text = JSON.stringify({ state, ...this.#self, ...note });
    try {
      await writeFile(partial, `${text}\n`, { mode: 0o600 });
      await rename(partial, this.#file);
    } catch (error) {
      if (isDiskFull(error)) throw new DiskFullError(this.#home.path, error);
      throw error;
    }
    this.#isWritten = true;
  }
}

/** What runs in the home on this machine, if anything does. */
export async function holderOf(home: Home): Promise<(ClaimNote & Claimant) | undefined> {
  const kernel = await kernelId();
  for (const claim of await claimsIn(home)) {
    const isHere = claim.state === "holding" && claim.kernel === kernel;
    if (isHere && (!claim.socket || (await isListening(socketOf(home, claim))))) return claim;
  }
  return undefined;
}

interface Look extends TakeOptions {
  readonly except: string;
}

/** The claims of living processes; those of dead ones are removed. */
async function livingClaims(home: Home, look: Look): Promise<Claim[]> {
  const kernel = await kernelId();
  const others = (await claimsIn(home)).filter(({ token }) => token !== look.except);
  const living = await Promise.all(
    others.map(async (claim) => {
      const isExact = claim.socket && claim.kernel === kernel;
      return (await (isExact ? isListening(socketOf(home, claim)) : isTouched(home, claim, look)))
        ? [claim]
        : [];
    }),
  );
  for (const claim of others) {
    if (!living.flat().includes(claim)) await remove(home, claim.token);
  }
  return living.flat();
}

async function isTouched(home: Home, claim: Claim, look: Look): Promise<boolean> {
  const { watchMs = WATCH_MS, onWait } = look;
  onWait?.(
    `Waiting ${Math.ceil(watchMs / 1_000)} s: ${claim.host} may be using ${home.path} (pid ${claim.pid}) ...`,
  );
  return (await watchFile(fileOf(home, claim.token), watchMs)) === "touched";
}

async function claimsIn(home: Home): Promise<Claim[]> {
  const names = await readdir(home.claims).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  const claims = await Promise.all(
    names.map(async (name) => {
      const token = /^([\w-]+)\.json$/.exec(name)?.[1];
      return token === undefined ? undefined : readClaim(home, token);
    }),
  );
  return claims.filter((claim) => claim !== undefined);
}

/** Undefined if it was withdrawn meanwhile or cannot be read. */
async function readClaim(home: Home, token: string): Promise<Claim | undefined> {
  try {
    const claim = JSON.parse(await readFile(fileOf(home, token), "utf8")) as Partial<Claim>;
    const { state = "holding", pid = 0, host = "?", kernel = "?", socket = false } = claim;
    return { ...claim, token, state, pid, host, kernel, socket };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

async function remove(home: Home, token: string): Promise<void> {
  for (const ending of ["json", "json.partial", "sock"]) {
    await rm(join(home.claims, `${token}.${ending}`), { force: true });
  }
}

function fileOf(home: Home, token: string): string {
  return join(home.claims, `${token}.json`);
}

function socketOf(home: Home, { token }: Claim): string {
  return join(home.claims, `${token}.sock`);
}
