/**
 * Compares two servers key by key, while clients write to the source and a task copies the changes, and
 * repairs differences.
 *
 * A difference counts only if a delay of the stream cannot explain it. The source is read at its
 * offset X1. When the checkpoint in the target has reached Y >= X1, the target is read, and then the source
 * again, at X2. If the source had the same value at X1 and at X2, then the target, which is between
 * the two, must have it too:
 *
 *   source    ----[X1: v]--------------------[X2: v]---->
 *   target    --------------[Y: must be v]-------------->
 *
 * If the source's value changed meanwhile, the key is examined again. A repair writes v only while the target is not
 * beyond X2, so that no change of the stream is lost or applied twice. If the task does not reach
 * X1, because it is stopped or stalled, nothing is repaired: it would apply the changes up to X1 on top of v.
 */
import { sleep } from "@ropeway/core/internal";
import type { Mapping } from "../mapping.ts";
import type { Abilities } from "../sink/abilities.ts";
import type { Connection } from "../wire/connection.ts";
import type { Anchor } from "./anchor.ts";
import type { KeySource, KeyState } from "./key-reader.ts";
import { type RepairPlan, repair } from "./repair.ts";

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
  /** Keys that changed each time they were examined. */
  readonly undecided: number;
  /** Whether a task's checkpoint was used. */
  readonly anchored: boolean;
  /** Whether the task did not catch up with the source, so that nothing could be repaired from then on. */
  readonly behind: boolean;
  /** The source's offset when the comparison ended. */
  readonly offset: number | undefined;
}

/** The ends to compare, and how. */
export interface VerifierOptions {
  readonly source: KeySource;
  readonly target: KeySource;
  /** The progress of the task, if there is one. */
  readonly anchor: Anchor | undefined;
  /** Whether the task is still loading its snapshot, and will apply changes that the target does not have. */
  readonly behind: boolean;
  /** Whether the target is a cluster. */
  readonly clustered: boolean;
  /** The connection on which a key of the target is written. */
  guard(key: Buffer): Promise<Connection>;
  readonly mapping: Mapping;
  readonly abilities: Abilities;
  readonly repair: boolean;
  /** Added to the expiry of hash fields that are repaired. */
  readonly ttlShiftMs: number;
  /** The maximum difference of expiries. */
  readonly ttlToleranceMs: number;
  /** Differences beyond this number are only counted. */
  readonly maxListed: number;
  readonly signal: AbortSignal;
  onProgress(keys: number, different: number): void;
}

const FIRST_PAGE = 8;
const LARGEST_PAGE = 512;
const PAGE_BYTES = 4 * 1024 * 1024;
const ROUNDS = 10;
/** How often a repair is retried in a row while the stream advances. */
const RACES = 20;
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
  #behind: boolean;
  #offset: number | undefined;

  constructor(options: VerifierOptions) {
    this.#options = options;
    this.#anchored = options.anchor !== undefined;
    this.#behind = options.behind;
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
      // Renames may map keys with different names to the same name.
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
      // Their sizes are unknown, so only a few are read at a time.
      for (let at = 0; at < extra.length; at += FIRST_PAGE) {
        await this.#examine(froms[0] as number, extra.slice(at, at + FIRST_PAGE));
      }
    }
  }

  /** Compares keys of the source once, and examines keys that seem to differ. */
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
    await this.#examine(db, suspects);
    return here.bytes + there.bytes;
  }

  /** Examines keys until their difference is certain or gone. All of them share the pauses. */
  async #examine(db: number, keys: readonly Buffer[]): Promise<void> {
    const { signal } = this.#options;
    let open = keys;
    for (let round = 0; round < ROUNDS && open.length > 0; round++) {
      if (round > 0) await sleep(PAUSE_MS * round, signal);
      const { changing, suspects } = await this.#screen(db, open);
      const undecided = [...changing];
      for (const key of suspects) {
        const verdict = await this.#certain(db, key, round === ROUNDS - 1);
        if (verdict === "equal") this.#equal += 1;
        else if (verdict === "undecided") undecided.push(key);
      }
      open = undecided;
    }
    this.#undecided += open.length;
  }

  /** Leaves out keys that are equal by now, and keys that change too fast to be examined one by one. */
  async #screen(
    db: number,
    keys: readonly Buffer[],
  ): Promise<{ readonly changing: readonly Buffer[]; readonly suspects: readonly Buffer[] }> {
    const { source, target, mapping } = this.#options;
    const names = keys.map((key) => mapping.key(key));
    const before = await source.read(db, keys);
    await this.#reached(keys[0] as Buffer, before.offset);
    const there = await target.read(mapping.db(db) ?? db, names);
    const after = await source.read(db, keys);
    const differing = keys.map((_, at) => this.#differ(after.states[at], there.states[at]));
    const changed = keys.map((_, at) => this.#differ(before.states[at], after.states[at]));
    this.#equal += differing.filter((reason) => reason === undefined).length;
    const differ = (_: Buffer, at: number) => differing[at] !== undefined;
    const isChanging = (at: number) => changed[at] !== undefined;
    return {
      changing: keys.filter((key, at) => differ(key, at) && isChanging(at)),
      suspects: keys.filter((key, at) => differ(key, at) && !isChanging(at)),
    };
  }

  /** Examines one key once; again if a repair was too late because the stream moved on meanwhile. */
  async #certain(
    db: number,
    key: Buffer,
    last: boolean,
  ): Promise<"equal" | "different" | "undecided"> {
    const { source, target, mapping, anchor } = this.#options;
    const targetDb = mapping.db(db) ?? db;
    const name = mapping.key(key);
    for (let race = 0; race < RACES; race++) {
      const before = await source.read(db, [key]);
      await this.#reached(key, before.offset);
      const at = await this.#checkpoint(key);
      const there = (await target.read(targetDb, [name])).states[0] as KeyState;
      const after = await source.read(db, [key]);
      const here = after.states[0] as KeyState;
      this.#offset = after.offset;
      const reason = this.#differ(here, there);
      if (reason === undefined) return "equal";
      if (this.#differ(before.states[0], here) !== undefined) return "undecided";
      const within = at === undefined || (at >= (before.offset ?? 0) && at <= (after.offset ?? at));
      if (!within && !last) return "undecided";
      const mark = this.#anchored ? await anchor?.mark(key, name) : undefined;
      const until = after.offset ?? Number.MAX_SAFE_INTEGER;
      const what = { mark, until, db: targetDb, key: name, state: here };
      const repaired = within ? await this.#repair(what) : false;
      if (repaired === "raced") continue;
      this.#note({ key: String(name), db: targetDb, reason, ...shown(here, there), repaired });
      return "different";
    }
    return "undecided";
  }

  async #repair(
    what: Pick<RepairPlan, "mark" | "until" | "db" | "key" | "state">,
  ): Promise<boolean | "raced"> {
    const { abilities, ttlShiftMs, clustered, guard } = this.#options;
    // A task that is behind would apply changes again that the value already includes.
    if (!this.#options.repair || this.#behind) return false;
    const connection = await guard(what.key);
    return repair({ connection, abilities, ttlShiftMs, clustered, ...what });
  }

  #note(difference: Difference): void {
    this.#different += 1;
    if (difference.repaired) this.#repaired += 1;
    if (this.#differences.length < this.#options.maxListed) this.#differences.push(difference);
  }

  /** Waits until the task has applied this offset. Gives up on a task that does not advance. */
  async #reached(key: Buffer, offset: number | undefined): Promise<void> {
    if (!this.#anchored || offset === undefined) return;
    const deadline = performance.now() + ANCHOR_WITHIN_MS;
    for (let pauseMs = 1; performance.now() < deadline; pauseMs = Math.min(PAUSE_MS, 2 * pauseMs)) {
      const at = await this.#checkpoint(key);
      if (at === undefined || at >= offset) return;
      await sleep(pauseMs, this.#options.signal);
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
