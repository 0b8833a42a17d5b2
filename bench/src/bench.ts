/**
 * The declaration of a bench. It defines one operation and how to check its result. The runner (run.ts)
 * makes the figures comparable.
 *
 *   Bench --- scenarios: Scenario[] --- contenders: Contender[] --- open() -> Session
 *     |            one question              ours, peers, ceiling      prepare, run, close
 *     `------ bars: Bar[]   the claims, each a ratio within the rounds of this run
 *
 * Each contender runs in its own process (see agent.ts), so that its garbage and type feedback do not slow
 * down the others, and its CPU time is measured alone.
 */
import type { Results } from "./results.ts";
import type { Stage } from "./stage.ts";

/** A set of scenarios that one run measures for ours, the peers and the ceiling. */
export interface Bench {
  /** The name in `npm run bench -- <name>`, and of the file. */
  readonly name: string;
  readonly title: string;
  /** Bytes of payload per operation, unless --payload is given. */
  readonly payload: number;
  readonly scenarios: readonly Scenario[];
  readonly bars: readonly Bar[];
}

/** The metrics that the plot of a scenario shows. All metrics are measured in any case. */
export type Measure = "throughput" | "latency" | "cost";

/** One workload, run by each contender in turn. */
export interface Scenario {
  /** For example `jobs.process.c100`. */
  readonly id: string;
  readonly title: string;
  readonly measure: Measure;
  /** The contender that the others are compared with. */
  readonly baseline: string;
  readonly contenders: readonly Contender[];
  /** The length of its slices, as a multiple of the standard length. @default 1 */
  readonly weight?: number;
  /** Slices of each contender in a round, for long slices. @default the number of the run */
  readonly turns?: number;
}

/** A measured program. `--peers` selects peers. Other contenders always run. */
export interface Contender {
  readonly name: string;
  readonly role: Role;
  /** Starts a session in the contender's process. Throws Unavailable if the contender cannot run. */
  open(stage: Stage): Promise<Session>;
}

export type Role = "ours" | "peer" | "ceiling";

/** A contender that is ready for one scenario. */
export interface Session {
  /** Creates the initial state of a slice, such as a full queue. Not measured. */
  prepare?(slice: Slice): Promise<void>;
  /** The measured part. */
  run(slice: Slice): Promise<Work>;
  close(): Promise<void>;
}

/** One measured interval of a contender. */
export interface Slice {
  /** The intended length. A session with a fixed number of operations chooses one that takes about as long. */
  readonly ms: number;
  /** Starts at 0. Round 0 is the warm-up and is discarded. */
  readonly round: number;
}

/** The work of a slice. */
export interface Work {
  readonly operations: number;
  /** The number of results that were checked and correct. Fewer than `operations` ends the run. */
  readonly checked: number;
  readonly latency?: Latency | undefined;
  /** The time measured by the contender, if it is more precise than the duration of run(). */
  readonly elapsedMs?: number;
  /** Redis memory that the operations used, in scenarios about memory. */
  readonly bytes?: number;
  /** Commands that clients sent, without those inside scripts, in scenarios about commands. */
  readonly sent?: number;
}

/** Percentiles in microseconds. */
export interface Latency {
  readonly p50: number;
  readonly p99: number;
}

/** A claim that a ratio reaches the target. */
export interface Bar {
  readonly id: string;
  /** Returns undefined if a contender of the claim did not run. */
  ratio(results: Results): number | undefined;
  readonly op: ">=" | "<=";
  readonly target: number;
  /** The payload in bytes for which the claim is made. @default any */
  readonly payload?: number;
}

/** Thrown by open() if this contender cannot run. The run prints the message. */
export class Unavailable extends Error {
  override readonly name = "Unavailable";
}
