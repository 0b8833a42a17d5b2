/** The interface that each queue library implements for the bench. */

/** The data of every job. `n` is its number, `at` the time at which it was added. */
export interface JobData {
  readonly n: number;
  readonly at: number;
  readonly text: string;
}

/** A running worker. */
export interface Crew {
  close(): Promise<void>;
}

/** One library on one queue. Completed jobs are removed: by default in ours, by an option in the peers. */
export interface System {
  add(data: JobData): Promise<unknown>;
  addBulk(data: readonly JobData[]): Promise<unknown>;
  addDelayed(data: readonly JobData[], delayMs: number): Promise<unknown>;
  work(concurrency: number, onJob: (data: JobData) => void): Promise<Crew>;
  close(): Promise<void>;
}

/** The Redis and the key prefix of a system. */
export interface SystemPlace {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** The prefix of all keys. */
  readonly prefix: string;
}

/** Opens a system. */
export type OpenSystem = (place: SystemPlace) => Promise<System>;
