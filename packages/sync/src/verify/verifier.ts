/**
 * Compares two servers key by key, while clients write to the source and a task copies the changes, and
 * repairs what differs.
 *
 * A difference counts only if it cannot be explained by the way of the changes. The source is read at its
 * offset X1. When the checkpoint in the target has reached Y >= X1, the target is read, and then the source
 * again, at X2. If the source had the same value at X1 and at X2, then the target, which is between
 * the two, must have it too:
 *
 *   source    ----[X1: v]--------------------[X2: v]---->
 *   target    --------------[Y: must be v]-------------->
 *
 * If the source's value changed meanwhile, the key is looked at again. A repair writes v under a WATCH of the
 * checkpoint, so that it is applied exactly at Y and no change of the stream is lost or doubled. If the task does not get as
 * far as X1, because it is stopped or stands still, nothing is repaired: it would apply the changes up to X1 on top of v.
 */
import { sleep } from "@ropeway/core/internal";
import type { Mapping } from "../mapping.ts";
import type { Abilities } from "../sink/abilities.ts";
import type { Connection } from "../wire/connection.ts";
import type { Anchor } from "./anchor.ts";
import type { KeySource, KeyState } from "./key-reader.ts";
import { repair } from "./repair.ts";

/** Why a key differs. */
export type DifferenceReason = "missing" | "extra" | "type" | "value" | "ttl";

/** A key that differs. */
export interface Difference {
  readonly key: string;
  readonly db: number;
  readonly reason: DifferenceReason;
  readonly source: string;
  readonly target: string;
  readonly repaired: boolean;
}

/** The outcome of a comparison. */
export interface VerifyReport {
  /** Keys of the source that were compared. */
  readonly keys: number;
  readonly equal: number;
  readonly differences: readonly Difference[];
  readonly different: number;
  readonly repaired: number;
  /** Keys that changed each time they were looked at. */
  readonly undecided: number;
  /** Whether a task's checkpoint was used. */
  readonly anchored: boolean;
  /** Whether the task did not catch up with the source, so that nothing could be repaired from then on. */
  readonly behind: boolean;
  /** The source's offset when the comparison ended. */
  readonly offset: number | undefined;
}

/** What is compared and how. */
export interface VerifierOptions {
  readonly source: KeySource;
  readonly target: KeySource;
  /** Where the task is, if there is one. */
  readonly anchor: Anchor | undefined;
  /** The connection on which a key of the target is written if there is no task. */
  guard(key: Buffer): Promise<Connection>;
  readonly mapping: Mapping;
  readonly abilities: Abilities;
  readonly repair: boolean;
  /** Added to the expiry of hash fields that are repaired. */
  readonly ttlShiftMs: number;
  /** Expiries may differ by this much. */
  readonly ttlToleranceMs: number;
  /** Differences beyond this number are counted only. */
  readonly maxListed: number;
  readonly signal: AbortSignal;
  onProgress(keys: number, different: number): void;
}

const FIRST_PAGE = 8;
const LARGEST_PAGE = 512;
const PAGE_BYTES = 4 * 1024 * 1024;
const ROUNDS = 10;
const PAUSE_MS = 50;
const ANCHOR_WITHIN_MS = 5_000;

/** Compares two servers key by key. */
export class Verifier {
  readonly #options: VerifierOptions;
  readonly #differences: Difference[] = [];
  #keys = 0;
  #equal = 0;
  #different = 0;
  #repaired = 0;
  #undecided = 0;
  #anchored: boolean;
  #behind = false;
  #offset: number | undefined;

  constructor(options: VerifierOptions) {
    this.#options = options;
    this.#anchored = options.anchor !== undefined;
  }

  async run(): Promise<VerifyReport> {
    const { source, target, mapping } = this.#options;
    for (const db of await source.dbs()) {
      if (mapping.db(db) !== undefined) await this.#sourceDb(db);
    }
    for (const db of await target.dbs()) await this.#targetDb(db);
    return {
      keys: this.#keys,
      equal: this.#equal,
      differences: this.#differences,
      different: this.#different,
      repaired: this.#repaired,
      undecided: this.#undecided,
      anchored: this.#anchored,
      behind: this.#behind,
      offset: this.#offset,
    };
  }

  async #sourceDb(db: number): Promise<void> {
    const { source, mapping, onProgress, signal } = this.#options;
    let size = FIRST_PAGE;
    for await (const page of source.scan(db, LARGEST_PAGE)) {
      const keys = page.keys.filter((key) => mapping.copies(key));
      for (let at = 0; at < keys.length; ) {
        signal.throwIfAborted();
        const some = keys.slice(at, at + size);
        at += some.length;
        const bytes = await this.#compare(db, some);
        // Pages adapt to the size of values, so that memory does not depend on the data.
        const fitting = Math.floor((some.length * PAGE_BYTES) / Math.max(bytes, 1));
        size = Math.max(1, Math.min(LARGEST_PAGE, size * 2, fitting));
        onProgress(this.#keys, this.#different);
      }
    }
  }

  /** Keys of the target that the source does not have. */
  async #targetDb(targetDb: number): Promise<void> {
    const { source, target, mapping, signal } = this.#options;
    const sources = mapping.dbs ?? [targetDb];
    const froms = sources.filter((db) => mapping.db(db) === targetDb);
    if (froms.length === 0) return;
    for await (const { keys } of target.scan(targetDb, LARGEST_PAGE)) {
      signal.throwIfAborted();
      // Renames may give keys of several names the same one.
      const origins = keys.map((key) => mapping.origins(key)).filter(({ length }) => length > 0);
      const names = origins.flat();
      const found = new Set<Buffer>();
      for (const db of froms) {
        (await source.exist(db, names)).forEach((exists, at) => {
          if (exists) found.add(names[at] as Buffer);
        });
      }
      const missing = origins.filter((some) => !some.some((name) => found.has(name)));
      const extra = missing.map(([name]) => name as Buffer);
      if (extra.length > 0) await this.#examine(froms[0] as number, extra);
    }
  }

  /** Compares keys of the source once, and examines those that seem to differ. */
  async #compare(db: number, keys: readonly Buffer[]): Promise<number> {
    const { source, target, mapping } = this.#options;
    const here = await source.read(db, keys);
    const names = keys.map((key) => mapping.key(key));
    const there = await target.read(mapping.db(db) ?? db, names);
    const suspects = keys.filter(
      (_, at) => this.#differ(here.states[at], there.states[at]) !== undefined,
    );
    this.#keys += keys.length;
    this.#equal += keys.length - suspects.length;
    this.#offset = here.offset;
    for (const key of suspects) await this.#examine(db, [key]);
    return here.bytes + there.bytes;
  }

  /** Looks at keys until their difference is certain or gone. */
  async #examine(db: number, keys: readonly Buffer[]): Promise<void> {
    for (const key of keys) {
      const verdict = await this.#certain(db, key);
      if (verdict === "equal") this.#equal += 1;
      else if (verdict === "undecided") this.#undecided += 1;
    }
  }

  async #certain(db: number, key: Buffer): Promise<"equal" | "different" | "undecided"> {
    const { source, target, mapping, signal, anchor } = this.#options;
    const targetDb = mapping.db(db) ?? db;
    const name = mapping.key(key);
    for (let round = 0; round < ROUNDS; round++) {
      if (round > 0) await sleep(PAUSE_MS * round, signal);
      const before = await source.read(db, [key]);
      await this.#reached(key, before.offset);
      const guard = (await anchor?.watch(key, name)) ?? (await this.#options.guard(name));
      const at = await this.#checkpoint(key);
      const there = (await target.read(targetDb, [name])).states[0] as KeyState;
      const after = await source.read(db, [key]);
      const here = after.states[0] as KeyState;
      this.#offset = after.offset;
      const reason = this.#differ(here, there);
      if (reason === undefined) return "equal";
      if (this.#differ(before.states[0], here) !== undefined) continue;
      const within = at === undefined || (at >= (before.offset ?? 0) && at <= (after.offset ?? at));
      if (!within && round < ROUNDS - 1) continue;
      const what = { db: targetDb, key: name, state: here };
      const repaired = within ? await this.#repair(guard, what) : false;
      if (repaired === "raced") continue;
      this.#note({ key: String(name), db: targetDb, reason, ...shown(here, there), repaired });
      return "different";
    }
    return "undecided";
  }

  async #repair(
    connection: Connection,
    what: { db: number; key: Buffer; state: KeyState },
  ): Promise<boolean | "raced"> {
    const { abilities, ttlShiftMs } = this.#options;
    // A task that is behind would apply changes again that are in the value.
    if (!this.#options.repair || this.#behind) return false;
    return repair({ connection, abilities, ttlShiftMs, ...what });
  }

  #note(difference: Difference): void {
    this.#different += 1;
    if (difference.repaired) this.#repaired += 1;
    if (this.#differences.length < this.#options.maxListed) this.#differences.push(difference);
  }

  /** Waits until the task has applied this offset; gives up on a task that does not move. */
  async #reached(key: Buffer, offset: number | undefined): Promise<void> {
    if (!this.#anchored || offset === undefined) return;
    const deadline = performance.now() + ANCHOR_WITHIN_MS;
    while (performance.now() < deadline) {
      const at = await this.#checkpoint(key);
      if (at === undefined || at >= offset) return;
      await sleep(PAUSE_MS, this.#options.signal);
    }
    this.#anchored = false;
    this.#behind = true;
  }

  async #checkpoint(key: Buffer): Promise<number | undefined> {
    return this.#anchored ? this.#options.anchor?.offset(key) : undefined;
  }

  #differ(here: KeyState | undefined, there: KeyState | undefined): DifferenceReason | undefined {
    const [a, b] = [here?.digest, there?.digest];
    if (a === undefined) return b === undefined ? undefined : "extra";
    if (b === undefined) return "missing";
    if (a !== b) return a.split(":")[0] === b.split(":")[0] ? "value" : "type";
    const [x, y] = [here?.expiresAtMs ?? -1, there?.expiresAtMs ?? -1];
    if (x < 0 !== y < 0) return "ttl";
    return Math.abs(x - y) > this.#options.ttlToleranceMs ? "ttl" : undefined;
  }
}

function shown(here: KeyState, there: KeyState): { source: string; target: string } {
  const show = ({ digest, expiresAtMs }: KeyState) =>
    digest === undefined
      ? "absent"
      : `${digest}${expiresAtMs < 0 ? "" : ` expires ${new Date(expiresAtMs).toISOString()}`}`;
  return { source: show(here), target: show(there) };
}
