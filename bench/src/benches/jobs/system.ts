/** What each queue library is asked to do, in its own words. */

/** The data of every job: `n` tells it apart, `at` is when it was added. */
export interface JobData {
  readonly n: number;
  readonly at: number;
  readonly text: string;
}

/** A worker that runs. */
export interface Crew {
  close(): Promise<void>;
}

/** One library on one queue. Completed jobs are removed: ours does so by itself, the peers when told. */
export interface System {
  add(data: JobData): Promise<unknown>;
  addBulk(data: readonly JobData[]): Promise<unknown>;
  addDelayed(data: readonly JobData[], delayMs: number): Promise<unknown>;
  work(concurrency: number, onJob: (data: JobData) => void): Promise<Crew>;
  close(): Promise<void>;
}

/** Where a system works. */
export interface SystemPlace {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Begins all keys. */
  readonly prefix: string;
}

/** Opens a system. */
export type OpenSystem = (place: SystemPlace) => Promise<System>;
