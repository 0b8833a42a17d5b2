/**
 * One queue of one worker: the attempts it holds, the outcomes it still has to report, and
 * whether to ask for more jobs. A worker on several queues has a source for each, in order.
 */
import { ConnectionLostError } from "@ropeway/core";
import { decodeRecord } from "../record.ts";
import type { Ended, Exchange, HeldJob, QueueStore, Taken } from "../store/queue-store.ts";
import { Attempt, type AttemptHome, type Lease } from "./attempt.ts";

/**
 * Maximum of ended attempts per call, done and undone, so that Redis is not blocked for long. An attempt whose record
 * has to be read counts as COST_WITH_RECORD attempts.
 */
const MOST_ENDED = 500;
const COST_WITH_RECORD = 3;

/** Maximum of characters of their data, results and errors, plus those of the last one. */
const MOST_CHARACTERS = 4 << 20;

/** Maximum of children of these attempts, plus those of the last one. Their outcomes are deleted with the job. */
const MOST_CHILDREN = 5_000;

/** Ask again at least this often, because a limit may be removed meanwhile. */
const LONGEST_REST_MS = 60_000;

/** The options of a source. */
export interface SourceOptions extends AttemptHome {
  readonly worker: string;
  readonly leaseMs: number;
  /** How long the worker blocks on this queue alone when it is idle; 0 if it has other queues too. */
  readonly idleMs: number;
}

/** A reported outcome, with the event to emit once Redis has confirmed it. */
interface Report extends Ended {
  readonly children: number;
  /** Of its data, which Redis has to read if it reads the record, and of `json`. */
  readonly characters: number;
  readonly onConfirmed: (() => void) | undefined;
}

/** The result of an exchange. */
export interface Exchanged {
  readonly taken: Taken;
  /** Ids whose lease was lost before their outcome was reported. */
  readonly lost: readonly string[];
}

/** One queue of a worker. */
export class Source {
  readonly store: QueueStore;
  /** All attempts whose lease is ours, from the take until Redis has confirmed the end. */
  readonly held: Map<string, Attempt> = new Map();
  /** Redis had no more jobs for us. A wake-up resets it. */
  dry = false;
  /** Calls under way. */
  calls = 0;
  /** The reply of a call was lost, so we may hold unknown jobs. The next call is sent alone. */
  unsure = false;
  readonly #options: SourceOptions;
  #done: Report[] = [];
  #undone: Report[] = [];
  /** Fences whose outcome was sent before, with an unknown result. A refusal then means nothing. */
  readonly #repeated = new Set<number>();
  #resume: NodeJS.Timeout | undefined;

  constructor(options: SourceOptions) {
    this.store = options.store;
    this.#options = options;
  }

  /** The number of outcomes that were not reported yet. */
  get ended(): number {
    return this.#done.length + this.#undone.length;
  }

  done(attempt: Attempt, json: string, onConfirmed?: () => void): void {
    const how = attempt.special ? "s" : "";
    const { id, fence, holder, childCount: children } = attempt;
    const characters = json.length + attempt.size;
    this.#done.push({ id, fence, holder, how, json, children, characters, onConfirmed });
  }

  undone(
    attempt: HeldJob & { readonly childCount?: number; readonly size?: number },
    verdict: string,
    about: UndoneAbout = {},
  ): void {
    const { json = "", onConfirmed } = about;
    const { id, fence, holder, childCount: children = 0, size = 0 } = attempt;
    const characters = json.length + size;
    this.#undone.push({ id, fence, holder, how: verdict, json, children, characters, onConfirmed });
  }

  /** Reports ended jobs and takes up to `want` jobs. The reports are kept if the call fails. */
  async exchange(want: number): Promise<Exchanged> {
    if (this.unsure && this.calls <= 1) await this.#returnUnknown();
    const share = this.#done.length > 0 ? MOST_ENDED / 2 : MOST_ENDED; // neither kind keeps the other waiting
    const undone = firstOf(this.#undone, share);
    const done = firstOf(this.#done, MOST_ENDED - undone.length * COST_WITH_RECORD);
    const { worker, leaseMs, idleMs } = this.#options;
    const exchange: Exchange = { worker, leaseMs, want, idleMs, done, undone };
    try {
      const taken = await this.store.next(exchange);
      const lost = new Set(taken.refused);
      this.#confirm(done, lost);
      this.#confirm(undone, lost);
      return { taken, lost: [...lost] };
    } catch (error) {
      this.unsure ||= want > 0 && error instanceof ConnectionLostError;
      for (const ended of [...done, ...undone]) this.#repeated.add(ended.fence);
      this.#done = [...done, ...this.#done];
      this.#undone = [...undone, ...this.#undone];
      throw error;
    }
  }

  /** Makes attempts of the taken jobs. */
  open(taken: Taken, sentAt: number): Opened {
    const attempts: Attempt[] = [];
    const unreadable: HeldJob[] = [];
    const displaced: Attempt[] = [];
    const { jobs, firstFence } = taken;
    const safeUntil = sentAt + this.#options.leaseMs;
    const holder = this.#options.worker;
    for (let i = 0; i < jobs.length; i += 2) {
      const id = jobs[i] as string;
      const fence = firstFence + i / 2 + 1;
      const before = this.held.get(id);
      if (before !== undefined) displaced.push(before);
      const attempt = this.#attempt(jobs[i + 1] as string, { id, fence, holder, safeUntil });
      if (attempt === undefined) unreadable.push({ id, fence, holder });
      else attempts.push(attempt);
    }
    return { attempts, unreadable, displaced };
  }

  /** Makes an attempt of a job that add.lua handed over: token LF id LF record. */
  adopt(handedOver: string): Opened {
    const first = handedOver.indexOf("\n");
    const second = handedOver.indexOf("\n", first + 1);
    const id = handedOver.slice(first + 1, second);
    const fence = Number.parseInt(handedOver, 10);
    const safeUntil = performance.now() + this.#options.leaseMs;
    const before = this.held.get(id);
    const displaced = before === undefined ? [] : [before];
    const attempt = this.#attempt(handedOver.slice(second + 1), { id, fence, safeUntil });
    return attempt === undefined
      ? { attempts: [], unreadable: [{ id, fence }], displaced }
      : { attempts: [attempt], unreadable: [], displaced };
  }

  /** Asks again in `ms`, when a limit allows more jobs. */
  restFor(ms: number, resume: () => void): void {
    clearTimeout(this.#resume);
    const again = () => {
      this.dry = false;
      resume();
    };
    this.#resume = setTimeout(again, Math.min(ms, LONGEST_REST_MS));
  }

  close(): void {
    clearTimeout(this.#resume);
  }

  /**
   * Hands back jobs that a call took whose reply was lost. They never ran here, so this is not a stall, and they
   * need not wait until their leases expire.
   */
  async #returnUnknown(): Promise<void> {
    const reported = new Set([...this.#done, ...this.#undone].map(({ fence }) => fence));
    for (const job of await this.store.heldBy(this.#options.worker)) {
      const known = this.held.get(job.id)?.fence === job.fence || reported.has(job.fence);
      if (known) continue;
      this.undone(job, "back");
      this.#repeated.add(job.fence); // its lease may have expired: do not report it
    }
    this.unsure = false;
  }

  #attempt(text: string, lease: Lease): Attempt | undefined {
    const record = decodeRecord(text);
    if (record === undefined) return undefined;
    const attempt = new Attempt(this.#options, record, lease);
    this.held.set(lease.id, attempt);
    return attempt;
  }

  /** Removes refusals of repeated reports from `lost`, and emits the events of outcomes that Redis has accepted. */
  #confirm(sent: readonly Report[], lost: Set<string>): void {
    for (const { id, fence, onConfirmed } of sent) {
      if (this.held.get(id)?.fence === fence) this.held.delete(id);
      if (this.#repeated.delete(fence)) lost.delete(id);
      if (!lost.has(id)) onConfirmed?.();
    }
  }
}

/** Takes the reports of one call from the list. */
function firstOf(reports: Report[], most: number): Report[] {
  let [count, cost, children, characters] = [0, 0, 0, 0];
  for (const report of reports) {
    if (cost >= most || children >= MOST_CHILDREN || characters >= MOST_CHARACTERS) break;
    count += 1;
    cost += report.how === "" ? 1 : COST_WITH_RECORD;
    children += report.children;
    characters += report.characters;
  }
  return reports.splice(0, count);
}

/** The jobs of a reply. */
export interface Opened {
  readonly attempts: readonly Attempt[];
  readonly unreadable: readonly HeldJob[];
  /** Earlier attempts of jobs with the same ids. They have lost their leases. */
  readonly displaced: readonly Attempt[];
}

/** Details of an outcome that is not a result. */
export interface UndoneAbout {
  /** The error as JSON. */
  readonly json?: string;
  readonly onConfirmed?: () => void;
}
