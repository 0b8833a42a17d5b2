/**
 * One queue as one worker sees it: what is held, what has ended and is still to be told, and whether
 * asking for more makes sense. A worker on several queues has a lane for each, in order.
 */
import { Attempt, type AttemptHome, type Lease } from "./attempt.ts";
import { decodeRecord } from "./record.ts";
import type { Ended, Exchange, QueueStore, Taken } from "./store.ts";

/** Ended attempts per call: Lua unpacks them all at once. */
const MOST_ENDED = 500;

/** A limit may be lifted meanwhile: look again at least this often. */
const LONGEST_REST_MS = 60_000;

/** What a lane is given. */
export interface LaneOptions extends AttemptHome {
  readonly worker: string;
  readonly leaseMs: number;
  /** How long the worker blocks when it is idle. */
  readonly idleMs: number;
}

/** A job whose record could not be read. */
export interface Unreadable {
  readonly id: string;
  readonly token: string;
}

/** See above. */
export class Lane {
  readonly store: QueueStore;
  /** All attempts whose lease is ours, from taking until Redis has confirmed the end. */
  readonly held: Map<string, Attempt> = new Map();
  /** Redis had nothing (more) for us; a wake-up changes that. */
  dry = false;
  /** Calls under way. */
  calls = 0;
  readonly #options: LaneOptions;
  #done: Ended[] = [];
  #undone: Ended[] = [];
  /** Tokens whose outcome was sent before, with an unknown result: a refusal then means nothing. */
  readonly #repeated = new Set<string>();
  #resume: NodeJS.Timeout | undefined;

  constructor(options: LaneOptions) {
    this.store = options.store;
    this.#options = options;
  }

  get ended(): number {
    return this.#done.length + this.#undone.length;
  }

  done(attempt: Attempt, json: string): void {
    const how = attempt.special ? "s" : "";
    this.#done.push({ id: attempt.id, token: attempt.token, how, json });
  }

  undone(attempt: Unreadable, verdict: string, json: string): void {
    this.#undone.push({ id: attempt.id, token: attempt.token, how: verdict, json });
  }

  /** Tells what has ended and takes up to `want` jobs; what was sent is kept if the call fails. */
  async exchange(want: number): Promise<Taken> {
    const done = this.#done.splice(0, MOST_ENDED);
    const undone = this.#undone.splice(0, MOST_ENDED);
    const { worker, leaseMs, idleMs } = this.#options;
    const exchange: Exchange = { worker, leaseMs, want, parkMs: idleMs, done, undone };
    try {
      const taken = await this.store.next(exchange);
      this.#confirm(done);
      this.#confirm(undone);
      return taken.refused.length === 0 && this.#repeated.size === 0
        ? taken
        : { ...taken, refused: this.#news(taken.refused, [...done, ...undone]) };
    } catch (error) {
      for (const ended of [...done, ...undone]) this.#repeated.add(ended.token);
      this.#done = [...done, ...this.#done];
      this.#undone = [...undone, ...this.#undone];
      throw error;
    }
  }

  /** Makes attempts of what was taken. */
  open(taken: Taken, sentAt: number): { attempts: Attempt[]; unreadable: Unreadable[] } {
    const attempts: Attempt[] = [];
    const unreadable: Unreadable[] = [];
    const { jobs, firstFence, tokenRest } = taken;
    const safeUntil = sentAt + this.#options.leaseMs;
    for (let i = 0; i < jobs.length; i += 2) {
      const id = jobs[i] as string;
      const fence = firstFence + i / 2 + 1;
      const token = `${fence}${tokenRest}`;
      const attempt = this.#attempt(jobs[i + 1] as string, { id, token, fence, safeUntil });
      if (attempt === undefined) unreadable.push({ id, token });
      else attempts.push(attempt);
    }
    return { attempts, unreadable };
  }

  /** Makes an attempt of a job that add.lua handed over: token LF id LF record. */
  adopt(handedOver: string): { attempts: Attempt[]; unreadable: Unreadable[] } {
    const first = handedOver.indexOf("\n");
    const second = handedOver.indexOf("\n", first + 1);
    const token = handedOver.slice(0, first);
    const id = handedOver.slice(first + 1, second);
    const fence = Number.parseInt(token, 10);
    const safeUntil = performance.now() + this.#options.leaseMs;
    const attempt = this.#attempt(handedOver.slice(second + 1), { id, token, fence, safeUntil });
    return attempt === undefined
      ? { attempts: [], unreadable: [{ id, token }] }
      : { attempts: [attempt], unreadable: [] };
  }

  #attempt(text: string, lease: Lease): Attempt | undefined {
    const record = decodeRecord(text);
    if (record === undefined) return undefined;
    const attempt = new Attempt(this.#options, record, lease);
    this.held.set(lease.id, attempt);
    return attempt;
  }

  /** Asks again in `ms`: a limit stands in the way until then. */
  restFor(ms: number, resume: () => void): void {
    clearTimeout(this.#resume);
    this.#resume = setTimeout(
      () => {
        this.dry = false;
        resume();
      },
      Math.min(ms, LONGEST_REST_MS),
    );
  }

  close(): void {
    clearTimeout(this.#resume);
  }

  #confirm(sent: readonly Ended[]): void {
    for (const { id, token } of sent) {
      if (this.held.get(id)?.token === token) this.held.delete(id);
    }
  }

  /** The refusals that are not the echo of a call whose answer was lost. */
  #news(refused: readonly string[], sent: readonly Ended[]): string[] {
    const known = new Set<string>();
    for (const { id, token } of sent) if (this.#repeated.delete(token)) known.add(id);
    return refused.filter((id) => !known.has(id));
  }
}
