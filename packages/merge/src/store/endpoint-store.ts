/** Every command about endpoints: admission, health, and operators' settings. */
import { defineScript, isReply, type Redis, type Script } from "@ropeway/core";
import { isSigningKey } from "../delivery/signature.ts";
import { TooManyEndpointsError, UnknownEndpointError } from "../errors.ts";
import type { MergeKeys } from "../keys.ts";
import { countOf, fields, numberOf } from "./scripts.ts";

/** Whether an endpoint may be called. */
export type Admission =
  /** `limited`: the admission is for one call, whose end must be reported with its token. */
  | {
      readonly verdict: "go" | "limited" | "probe";
      readonly secrets: readonly StoredSecret[];
      /** A key that holds a foreign value and was ignored; "" if there is none. */
      readonly wrong: string;
    }
  | { readonly verdict: "hold"; readonly ms: number; readonly reason: string }
  | { readonly verdict: "disabled"; readonly reason: string };

/** One signing secret of an endpoint. */
export interface StoredSecret {
  /** whsec_... */
  readonly secret: string;
  /** When it stops signing, ms since 1970; absent for the newest. */
  readonly until?: number;
}

/** The settings of the circuit breaker. */
export interface BreakerNumbers {
  readonly threshold: number;
  readonly openMs: number;
  readonly maxOpenMs: number;
}

/** The arguments of a report. */
export interface ReportArguments {
  readonly url: string;
  readonly outcome: "ok" | "refused" | "down";
  readonly calls: number;
  readonly status: string;
  readonly retryAfterMs?: number | undefined;
  readonly disable?: string | undefined;
  readonly token?: string | undefined;
  /** The `forgetMs` that was passed to admit() with the token. */
  readonly forgetMs: number;
  readonly breaker: BreakerNumbers;
}

/** One endpoint as an operator sees it. */
export interface Endpoint {
  readonly url: string;
  readonly delivered: number;
  readonly failed: number;
  /** The last HTTP status or error code. */
  readonly status: string;
  /** When it was last called, ms since 1970; 0 if it was never called. */
  readonly at: number;
  /** Until when it asked to wait, ms since 1970. */
  readonly heldUntil: number | undefined;
  /** The reason why it is disabled. */
  readonly disabled: string | undefined;
  /** Whether an operator paused it, so that due batches wait. */
  readonly paused: boolean;
  readonly breaker: "closed" | "open" | "half-open";
  /** Until when the breaker is open, ms since 1970. */
  readonly openUntil: number | undefined;
  /** The maximum number of deliveries per second; undefined if there is none. */
  readonly ratePerSecond: number | undefined;
  /** The maximum number of deliveries at a time; undefined if there is none. */
  readonly concurrency: number | undefined;
  /** How many of its own secrets sign deliveries to it. */
  readonly secrets: number;
}

const file = (name: string) => new URL(`../../lua/${name}.lua`, import.meta.url);

const admit: Script<Admission> = defineScript(file("admit"), {
  parse: (reply) => {
    const [verdict, detail, reason] = reply as readonly [string, string | number, string];
    if (verdict === "hold") return { verdict, ms: Number(detail), reason };
    if (verdict === "disabled") return { verdict, reason: String(detail) };
    return {
      verdict: verdict as "go" | "limited" | "probe",
      secrets: secretsOf(String(detail)),
      wrong: String(reason),
    };
  },
});
const report: Script = defineScript(file("report"));
const mark: Script<number> = defineScript(file("mark"), { parse: Number, idempotent: true });
const enable: Script<number> = defineScript(file("enable"), { parse: Number, idempotent: true });

const PROBE_MS = 60_000;
const PROBE_WAIT_MS = 1_000;
/** How often batches for a paused endpoint are checked again, and so the maximum delay after the pause. */
const PAUSED_MS = 15_000;
const PLACE_WAIT_MS = 100;
/** The maximum time that a limit holds a batch back before it asks again, and so until it learns of a new limit. */
const LIMITED_MS = 60_000;
/** The maximum time that an endpoint can ask to wait, and that a breaker can be open. */
const LONGEST_HOLD_MS = 86_400_000;
const REMEMBER_MS = 604_800_000;
const MOST_ENDPOINTS = 10_000;
const MOST_MARKED = 1_000;

/** The endpoint records of one prefix. */
export class EndpointStore {
  readonly #redis: Redis;
  readonly #keys: MergeKeys;

  constructor(redis: Redis, keys: MergeKeys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  admit(url: string, given: { token: string; forgetMs: number }): Promise<Admission> {
    const keys = [this.#keys.endpoint(url), this.#breaker(url), this.#keys.active(url)];
    const waits = [PROBE_MS, PROBE_WAIT_MS, PAUSED_MS];
    const limits = [PLACE_WAIT_MS, LIMITED_MS, LONGEST_HOLD_MS];
    const args = [...waits, given.token, Math.ceil(given.forgetMs), ...limits];
    return this.#redis.run(admit, keys, args);
  }

  async report(given: ReportArguments): Promise<void> {
    const { url, outcome, calls, status, retryAfterMs = 0, disable = "", token = "" } = given;
    const { threshold, openMs, maxOpenMs } = given.breaker;
    const keys = this.#keys;
    await this.#redis.run(
      report,
      [
        ...[keys.endpoints, keys.endpoint(url), this.#breaker(url), keys.marked, keys.active(url)],
        keys.breakers,
      ],
      [
        ...[url, outcome, calls, status, Math.ceil(retryAfterMs), disable],
        ...[threshold, openMs, maxOpenMs, REMEMBER_MS, token, MOST_ENDPOINTS],
        ...[new URL(url).origin, Math.ceil(given.forgetMs)],
      ],
    );
  }

  /** Writes fields that stay until enable(), and deletes others; false if the secrets differ from `seen`. */
  async mark(
    url: string,
    given: {
      set?: Readonly<Record<string, string>>;
      unset?: readonly string[];
      /** The stored secrets as the caller saw them, byte for byte. */
      seen?: string;
    },
  ): Promise<boolean> {
    const keys = [this.#keys.endpoints, this.#keys.endpoint(url), this.#keys.marked];
    const words = Object.entries(given.set ?? {}).flat();
    const seen = given.seen === undefined ? "" : `=${given.seen}`;
    const args = [url, MOST_MARKED, (given.unset ?? []).join(" "), seen, REMEMBER_MS, ...words];
    const done = await this.#redis.run(mark, keys, args);
    if (done === 0) throw new TooManyEndpointsError(url, MOST_MARKED);
    return done === 1;
  }

  async enable(url: string): Promise<void> {
    const { marked, breakers } = this.#keys;
    const keys = [this.#keys.endpoint(url), this.#breaker(url), marked, breakers];
    const args = [url, REMEMBER_MS, new URL(url).origin];
    const done = await this.#redis.run(enable, keys, args);
    // A misspelt URL must not look like success while the endpoint stays disabled.
    if (done === 0) throw new UnknownEndpointError(url);
  }

  /** The URLs, last used first. */
  urls(from: number, most: number): Promise<readonly string[]> {
    const range = [String(from), String(from + most - 1)];
    return this.#send(["ZREVRANGE", this.#keys.endpoints, ...range]);
  }

  /** One endpoint; undefined if it is not known, or if another program wrote something else there. */
  async read(url: string): Promise<Endpoint | undefined> {
    if (!URL.canParse(url)) return undefined;
    const [flat, flatBreaker, time] = await Promise.all([
      this.#hash(this.#keys.endpoint(url)),
      this.#hash(this.#breaker(url)),
      this.#send<readonly string[]>(["TIME"]),
    ]);
    const known = fields(flat);
    if (Object.keys(known).length === 0) return undefined;
    const now = Number(time[0]) * 1_000 + Number(time[1]) / 1_000;
    const held = numberOf(known.held);
    const open = numberOf(fields(flatBreaker).until);
    return {
      url,
      delivered: countOf(known.delivered),
      failed: countOf(known.failed),
      status: known.status ?? "",
      at: numberOf(known.at),
      heldUntil: held > now ? held : undefined,
      disabled: known.disabled,
      paused: known.paused !== undefined,
      breaker: open === 0 ? "closed" : open > now ? "open" : "half-open",
      openUntil: open > now ? open : undefined,
      ratePerSecond: numberOf(known.rate) || undefined,
      concurrency: countOf(known.concurrency) || undefined,
      secrets: secretsOf(known.secrets ?? "").length,
    };
  }

  /** The secrets, and their stored string, which another program may format differently. */
  async secrets(url: string): Promise<{ stored: string; secrets: readonly StoredSecret[] }> {
    const found = await this.#send<string | null>(["HGET", this.#keys.endpoint(url), "secrets"]);
    const stored = found ?? "";
    return { stored, secrets: secretsOf(stored) };
  }

  /** The time of Redis, ms since 1970. */
  async now(): Promise<number> {
    const [seconds, micros] = await this.#send<readonly string[]>(["TIME"]);
    return Math.floor(Number(seconds) * 1_000 + Number(micros) / 1_000);
  }

  async #hash(key: string): Promise<readonly string[]> {
    return this.#send<readonly string[]>(["HGETALL", key]).catch((error) => {
      if (isReply(error, "WRONGTYPE")) return [];
      throw error;
    });
  }

  #breaker(url: string): string {
    return this.#keys.breaker(new URL(url).origin);
  }

  /** Every command here can safely be repeated. */
  #send<T extends readonly string[] | string | null>(words: readonly string[]): Promise<T> {
    return this.#redis.send<T>(words, { key: this.#keys.timer, repeatable: true });
  }
}

/** The stored form of secrets. */
export function secretsText(secrets: readonly StoredSecret[]): string {
  return secrets.length === 0 ? "" : JSON.stringify(secrets);
}

function secretsOf(text: string): readonly StoredSecret[] {
  if (text === "") return [];
  try {
    const stored: unknown = JSON.parse(text);
    return Array.isArray(stored) ? stored.filter(isSecret) : [];
  } catch {
    return []; // another program wrote it
  }
}

/** Whether the value is a secret that can sign; another program may have written anything. */
function isSecret(value: unknown): value is StoredSecret {
  if (typeof value !== "object" || value === null) return false;
  const { secret, until } = value as { secret?: unknown; until?: unknown };
  return isSigningKey(secret) && (until === undefined || Number.isFinite(until));
}
