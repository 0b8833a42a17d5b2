/**
 * What all dispatchers together know about the targets: who asked to wait, who is gone, which origin is
 * down. It lives in Redis (admit.lua, report.lua draw the breaker); a healthy target costs nothing there:
 *
 *   admit: "go" is believed for a second     report: successes are counted here and written once a second
 *
 * Everything else (failures, holds, probes) goes to Redis at once and ends that belief.
 */
import type { Redis } from "@ropeway/core";
import { defineScript, type Script } from "@ropeway/core";
import { Loop } from "@ropeway/core/internal";
import type { MergeKeys } from "./keys.ts";
import { fields } from "./scripts.ts";

/** Whether a target may be called. */
export type Admission =
  | { readonly verdict: "go" | "probe" }
  | { readonly verdict: "hold"; readonly ms: number; readonly reason: string }
  | { readonly verdict: "disabled"; readonly reason: string };

/** How a call went. */
export interface Report {
  /** `refused`: it answered, but not with success; the origin is alive. */
  readonly outcome: "ok" | "refused" | "down";
  /** An HTTP status or an error's code. */
  readonly status: string;
  /** What Retry-After asked for. */
  readonly retryAfterMs?: number | undefined;
  /** Why the endpoint must not be called any more. */
  readonly disable?: string | undefined;
}

/** The breaker's numbers. */
export interface BreakerOptions {
  /** Failures in a row that open it. */
  readonly threshold: number;
  /** How long it is open at first; doubled at each failed probe. */
  readonly openMs: number;
  readonly maxOpenMs: number;
}

/** One target as the operator sees it. */
export interface Endpoint {
  readonly url: string;
  readonly delivered: number;
  readonly failed: number;
  /** The last HTTP status or error code. */
  readonly status: string;
  /** When it was last called, ms since 1970. */
  readonly at: number;
  /** Until when the receiver asked to wait, ms since 1970. */
  readonly heldUntil: number | undefined;
  readonly disabled: string | undefined;
  /** An operator lets what comes due for it wait. */
  readonly paused: boolean;
  readonly breaker: "closed" | "open" | "half-open";
  /** Until when the breaker is open, ms since 1970. */
  readonly openUntil: number | undefined;
}

const admit: Script<Admission> = defineScript(new URL("../lua/admit.lua", import.meta.url), {
  idempotent: true,
  parse: (reply) => {
    const [verdict, detail, reason] = reply as readonly [string, string | number, string];
    if (verdict === "hold") return { verdict, ms: Number(detail), reason };
    if (verdict === "disabled") return { verdict, reason: String(detail) };
    return { verdict: verdict === "probe" ? "probe" : "go" };
  },
});
const report: Script = defineScript(new URL("../lua/report.lua", import.meta.url));

const BELIEF_MS = 1_000;
const PROBE_MS = 60_000;
const PROBE_WAIT_MS = 1_000;
/** What is due for a paused endpoint is looked at again this often; so it fires this late after the pause. */
const PAUSED_MS = 15_000;
const REMEMBER_MS = 604_800_000;

/** Health of all targets of one prefix. */
export class EndpointHealth implements AsyncDisposable {
  readonly #redis: Redis;
  readonly #keys: MergeKeys;
  readonly #breaker: BreakerOptions;
  /** Targets that are fine, with the successes not written yet. */
  readonly #fine = new Map<string, { count: number; status: string }>();
  readonly #writer: Loop;

  constructor(redis: Redis, keys: MergeKeys, breaker: BreakerOptions) {
    this.#redis = redis;
    this.#keys = keys;
    this.#breaker = breaker;
    this.#writer = new Loop({
      tick: async () => {
        await this.#flush();
        return BELIEF_MS;
      },
      onError: (error) => redis.logger.debug({ err: error }, "cannot write endpoint health"),
    }).start();
  }

  /** Whether the target may be called now; a "probe" must be reported. */
  async admit(url: string): Promise<Admission> {
    if (this.#fine.has(url)) return { verdict: "go" };
    const keys = [this.#keys.endpoint(url), this.#keys.breaker(new URL(url).origin)];
    const admission = await this.#redis.run(admit, keys, [PROBE_MS, PROBE_WAIT_MS, PAUSED_MS]);
    if (admission.verdict === "go") this.#fine.set(url, { count: 0, status: "" });
    return admission;
  }

  /** Takes note of a call. Never throws: what became of the batch is known whether this is written or not. */
  async report(url: string, noted: Report): Promise<void> {
    try {
      await this.#report(url, noted);
    } catch (error) {
      this.#redis.logger.warn({ url, err: error }, "cannot write endpoint health");
    }
  }

  async #report(
    url: string,
    { outcome, status, retryAfterMs = 0, disable }: Report,
  ): Promise<void> {
    const fine = this.#fine.get(url);
    if (outcome === "ok" && fine !== undefined) {
      fine.count += 1;
      fine.status = status;
      return;
    }
    this.#fine.delete(url);
    if (fine !== undefined && fine.count > 0) await this.#write(url, "ok", fine);
    await this.#write(url, outcome, { count: 1, status, retryAfterMs, disable });
  }

  /** Writes what is left to write. */
  async close(): Promise<void> {
    await this.#writer.close();
    await this.#flush().catch((error) =>
      this.#redis.logger.warn({ err: error }, "cannot write endpoint health"),
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #flush(): Promise<void> {
    const fine = [...this.#fine];
    this.#fine.clear();
    await Promise.all(
      fine.map(([url, known]) => (known.count > 0 ? this.#write(url, "ok", known) : undefined)),
    );
  }

  async #write(url: string, outcome: Report["outcome"], noted: Noted): Promise<void> {
    const { count, status, retryAfterMs = 0, disable = "" } = noted;
    const { threshold, openMs, maxOpenMs } = this.#breaker;
    const keys = this.#keys;
    await this.#redis.run(
      report,
      [keys.endpoints, keys.endpoint(url), keys.breaker(new URL(url).origin)],
      [
        ...[url, outcome, count, status, Math.ceil(retryAfterMs), disable],
        ...[threshold, openMs, maxOpenMs, REMEMBER_MS],
      ],
    );
  }
}

interface Noted {
  readonly count: number;
  readonly status: string;
  readonly retryAfterMs?: number;
  readonly disable?: string | undefined;
}

/** The health of one target as it is written; undefined if it was never called. */
export async function readEndpoint(
  redis: Redis,
  keys: MergeKeys,
  url: string,
): Promise<Endpoint | undefined> {
  const read = async (key: string) =>
    fields(await redis.send<readonly string[]>(["HGETALL", key], { key, repeatable: true }));
  const [known, breaker, time] = await Promise.all([
    read(keys.endpoint(url)),
    read(keys.breaker(new URL(url).origin)),
    redis.send<readonly string[]>(["TIME"], { key: keys.timer, repeatable: true }),
  ]);
  if (Object.keys(known).length === 0) return undefined;
  const now = Number(time[0]) * 1_000 + Number(time[1]) / 1_000;
  const held = Number(known.held ?? 0);
  const open = Number(breaker.until ?? 0);
  return {
    url,
    delivered: Number(known.delivered ?? 0),
    failed: Number(known.failed ?? 0),
    status: known.status ?? "",
    at: Number(known.at ?? 0),
    heldUntil: held > now ? held : undefined,
    disabled: known.disabled,
    paused: known.paused !== undefined,
    breaker: open === 0 ? "closed" : open > now ? "open" : "half-open",
    openUntil: open > now ? open : undefined,
  };
}
