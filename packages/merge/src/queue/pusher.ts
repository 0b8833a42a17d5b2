/**
 * Gathers pushes into few script calls. A push is sent at once if no call is under way. Pushes that
 * arrive during a call wait for the end of this turn of the event loop, in which all sockets that have a
 * request are read. While MAX_CALLS calls are under way, they wait for the first reply. Then they are sent
 * together. So an idle queue adds no latency, and a busy one makes few calls.
 *
 *   add() ---> waiting ----- end of the turn, or a reply ------> one push.lua ----> an outcome for each
 *                 |
 *                 '-- flush(): at once, for a command that must not overtake them
 *
 * The order of pushes is kept, also between calls. A push that Redis refuses is sent again alone, so that it
 * does not reject other pushes and its caller gets its own error.
 */
import { ServerReplyError } from "@ropeway/core";
import { type Deferred, deferred } from "@ropeway/core/internal";
import type { PlainPush, QueueStore, StoredPush } from "../store/queue-store.ts";

/** Few enough that pushes gather behind a slow Redis; many enough that the pushes of each turn need not wait. */
const MAX_CALLS = 8;
/**
 * The maximum number of pushes in one call. Few: the callers of the first call get their responses while Redis
 * runs the next one. With one call for all, the process and Redis would wait for each other in turn.
 */
const MAX_PUSHES = 16;
const MAX_BYTES = 1 << 20;

interface Waiting extends PlainPush {
  readonly outcome: Deferred<StoredPush>;
}

/** Pushes single items without options. */
export class Pusher {
  readonly #store: QueueStore;
  readonly #maxWaitMs: number;
  #waiting: Waiting[] = [];
  #calls = 0;
  #scheduled = false;
  #idle: Deferred<void> | undefined;

  constructor(store: QueueStore, maxWaitMs: number) {
    this.#store = store;
    this.#maxWaitMs = maxWaitMs;
  }

  /** Resolves when the item is in Redis. */
  add(key: string, words: PlainPush["words"]): Promise<StoredPush> {
    const outcome = deferred<StoredPush>();
    this.#waiting.push({ key, words, outcome });
    if (this.#calls === 0 && !this.#scheduled) this.#send();
    else this.#schedule();
    return outcome.promise;
  }

  /** Sends all waiting pushes, so that the caller's next command comes after them. */
  flush(): void {
    while (this.#waiting.length > 0) this.#send();
  }

  /** Resolves when every add() has an outcome. */
  async settled(): Promise<void> {
    if (this.#calls === 0 && this.#waiting.length === 0) return;
    this.#idle ??= deferred();
    await this.#idle.promise;
  }

  #schedule(): void {
    if (this.#scheduled || this.#calls >= MAX_CALLS) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      while (this.#waiting.length > 0 && this.#calls < MAX_CALLS) this.#send();
    });
  }

  /** Sends the oldest pushes in one call. */
  #send(): void {
    const group = this.#waiting.splice(0, groupEnd(this.#waiting));
    if (group.length === 1) {
      this.#sendAlone(group[0] as Waiting);
      return;
    }
    this.#calls += 1;
    this.#store.pushGroup(group).then(
      (stored) => this.#answered(group, stored),
      (error) => {
        // A call that Redis refused has stored nothing. After any other failure the outcome is unknown.
        if (error instanceof ServerReplyError) this.#answered(group, []);
        else this.#answered(group, new Array(group.length).fill(error));
      },
    );
  }

  #answered(
    group: readonly Waiting[],
    outcomes: readonly (StoredPush | Error | undefined)[],
  ): void {
    for (let i = 0; i < group.length; i++) {
      if (outcomes[i] === undefined) this.#sendAlone(group[i] as Waiting);
    }
    this.#ended(); // first: a caller that continues finds the call ended
    for (let i = 0; i < group.length; i++) {
      const { outcome } = group[i] as Waiting;
      const result = outcomes[i];
      if (result instanceof Error) outcome.reject(result);
      else if (result !== undefined) outcome.resolve(result);
    }
  }

  #sendAlone({ key, words, outcome }: Waiting): void {
    this.#calls += 1;
    this.#store.push({ key, words, maxWaitMs: this.#maxWaitMs }).then(
      (stored) => {
        this.#ended();
        outcome.resolve(stored);
      },
      (error) => {
        this.#ended();
        outcome.reject(error);
      },
    );
  }

  #ended(): void {
    this.#calls -= 1;
    if (this.#waiting.length > 0) this.#schedule();
    else if (this.#calls === 0) {
      this.#idle?.resolve();
      this.#idle = undefined;
    }
  }
}

/** How many of the oldest pushes fit into one call. */
function groupEnd(waiting: readonly Waiting[]): number {
  let bytes = 0;
  let end = 0;
  while (end < waiting.length && end < MAX_PUSHES && bytes < MAX_BYTES) {
    bytes += (waiting[end] as Waiting).words[3]?.length ?? 0;
    end += 1;
  }
  return end;
}
