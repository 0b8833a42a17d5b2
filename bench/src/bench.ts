/**
 * What a bench is: a declaration. The runner (run.ts) does everything that makes figures comparable,
 * so that a bench only says what one operation is and how to tell that its result was right.
 *
 *   Bench --- scenarios: Scenario[] --- contenders: Contender[] --- open() -> Session
 *     |            one question              ours, peers, ceiling      prepare, run, close
 *     `------ bars: Bar[]   the claims, each a ratio taken inside the rounds of this run
 *
 * A contender lives in a process of its own (see agent.ts), one per name, so that nobody's garbage or
 * type feedback slows down somebody else, and each one's CPU time is exactly its own.
 */
import type { Results } from "./results.ts";
import type { Stage } from "./stage.ts";

/** A set of questions asked of ours, the peers and the ceiling in one run. */
export interface Bench {
  /** As in `npm run bench -- <name>`; also the file's name. */
  readonly name: string;
  readonly title: string;
  /** Bytes of payload per operation when --payload does not say. */
  readonly payload: number;
  readonly scenarios: readonly Scenario[];
  readonly bars: readonly Bar[];
}

/** What a scenario is about: decides what its plot shows; everything else is measured all the same. */
export type Measure = "throughput" | "latency" | "cost";

/** One question, put to each contender in turn. */
export interface Scenario {
  /** Such as `jobs.process.c100`. */
  readonly id: string;
  readonly title: string;
  readonly measure: Measure;
  /** The contender that the others are compared with. */
  readonly baseline: string;
  readonly contenders: readonly Contender[];
  /** How long a slice of this scenario lasts, as a multiple of the usual one. @default 1 */
  readonly weight?: number;
  /** Slices of each contender in a round, for long slices. @default what the run has */
  readonly turns?: number;
}

/** Who is measured. `--peers` chooses among the peers; the others always run. */
export interface Contender {
  readonly name: string;
  readonly role: Role;
  /** Gets ready, in the contender's own process; throws Unavailable to be left out with a reason. */
  open(stage: Stage): Promise<Session>;
}

export type Role = "ours" | "peer" | "ceiling";

/** A contender that is ready for one scenario. */
export interface Session {
  /** Brings about what a slice starts from, such as a full queue; not measured. */
  prepare?(slice: Slice): Promise<void>;
  /** The measured part. */
  run(slice: Slice): Promise<Work>;
  close(): Promise<void>;
}

/** The measured time given to one contender in one round. */
export interface Slice {
  /** How long it should take; a session that counts operations picks a number that takes about so long. */
  readonly ms: number;
  /** Counts up from 0; round 0 is the warm-up and is dropped. */
  readonly round: number;
}

/** What was done in a slice. */
export interface Work {
  readonly operations: number;
  /** How many of the results were looked at and right; fewer than `operations` ends the run. */
  readonly checked: number;
  readonly latency?: Latency | undefined;
  /** The contender's own clock, where it is nearer to the work than the time run() took. */
  readonly elapsedMs?: number;
  /** Redis memory that the operations took up, where that is the question. */
  readonly bytes?: number;
  /** Commands that clients sent, without those inside scripts, where that is the question. */
  readonly sent?: number;
}

/** Percentiles in microseconds. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
}

/** A claim: the ratio must be on the right side of the target. */
export interface Bar {
  readonly id: string;
  /** undefined when a contender it needs did not run. */
  ratio(results: Results): number | undefined;
  readonly op: ">=" | "<=";
  readonly target: number;
  /** Bytes of payload that the claim is about. @default any */
  readonly payload?: number;
}

/** Thrown by open(): this contender cannot run here, for a reason worth printing. */
export class Unavailable extends Error {
  override readonly name = "Unavailable";
}
