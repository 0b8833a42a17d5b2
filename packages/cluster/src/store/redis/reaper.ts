/**
 * Ends leases whose time has come. Every client with a lease or a watch runs one, so leases end as long as
 * one client is there. Two that work on the same lease do no harm: the script checks again.
 */

import type { Logger, Redis } from "@ropeway/core";
import { Loop, reasonOf } from "@ropeway/core/internal";
import { CLOSE_WITHIN_MS } from "../limits.ts";
import type { RedisStoreKeys } from "./keys.ts";
import { storeDue, storeRevoke } from "./scripts.ts";

const LONGEST_PAUSE_MS = 500;
const SHORTEST_PAUSE_MS = 20;
const LEASES_PER_ROUND = 20;
const PATHS_PER_CALL = 200;

/** What a reaper needs. */
export interface ReaperPlan {
  readonly redis: Redis;
  readonly keys: RedisStoreKeys;
  readonly history: number;
  readonly logger: Logger;
}

/** The reaper of one client. */
export class LeaseReaper {
  readonly #plan: ReaperPlan;
  readonly #loop: Loop;

  constructor(plan: ReaperPlan) {
    this.#plan = plan;
    this.#loop = new Loop({
      tick: () => this.tick(),
      onError: (error) => plan.logger.debug({ err: reasonOf(error) }, "cannot end leases"),
      closeWithinMs: CLOSE_WITHIN_MS,
    });
  }

  start(): void {
    this.#loop.start();
  }

  close(): Promise<void> {
    return this.#loop.close();
  }

  /** Ends the leases that are due. Returns the time until the next one is due. */
  async tick(): Promise<number> {
    const { redis, keys } = this.#plan;
    const [next, ...due] = await redis.run(storeDue, [keys.leases, keys.held], [LEASES_PER_ROUND]);
    for (const lease of due) await this.end(String(lease), "due");
    if (due.length > 0) return 0;
    const waitMs = Number(next) < 0 ? LONGEST_PAUSE_MS : Number(next);
    return Math.min(LONGEST_PAUSE_MS, Math.max(SHORTEST_PAUSE_MS, waitMs));
  }

  /** Ends one lease with all its keys. */
  async end(lease: string, mode: "due" | "now"): Promise<void> {
    const { redis, keys, history } = this.#plan;
    const fixed = [keys.state, keys.index, keys.meta, keys.log, keys.leases, keys.held];
    for (;;) {
      const members = await redis.send<readonly string[]>(
        [
          ...["ZRANGE", keys.held, `[${lease} `, `(${lease}!`],
          ...["BYLEX", "LIMIT", "0", String(PATHS_PER_CALL)],
        ],
        { key: keys.held, repeatable: true },
      );
      const paths = members.map((member) => member.slice(lease.length + 1));
      const outcome = await redis.run(
        storeRevoke,
        [...fixed, ...paths.map((path) => keys.value(path))],
        [history, lease, mode, ...paths],
      );
      if (outcome !== 2) return;
    }
  }
}
