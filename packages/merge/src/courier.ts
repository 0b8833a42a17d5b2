/**
 * Delivers a batch over HTTP and judges the answer.
 *
 *   2xx                       delivered            207 with {"failed":[id or position, ...]}  these again
 *   410                       endpoint disabled, batch dead
 *   other status, no answer   again later; Retry-After holds the whole endpoint
 *   blocked address           dead: trying again cannot help, allowing it and replaying does
 *   held, disabled, breaker   not tried at all
 */
import { isUtf8 } from "node:buffer";
import type { Clock } from "@ropeway/core";
import { currentTraceparent, reasonOf } from "@ropeway/core/internal";
import type { Admission, EndpointHealth } from "./endpoint-health.ts";
import { BlockedTargetError } from "./errors.ts";
import { type Item, isForeign } from "./item.ts";
import type { Batch } from "./queue.ts";
import { retryAfterMs } from "./retry-after.ts";
import type { Answer, Sender } from "./sender.ts";
import { sign } from "./signature.ts";
import { isSingle, type Target, targetOf } from "./target.ts";
import { DELIVERED, type Verdict } from "./verdict.ts";

/** What a courier works with. */
export interface CourierOptions {
  readonly sender: Sender;
  readonly health: EndpointHealth;
  readonly clock: Clock;
  /** Keys that sign; none: no signature. */
  readonly signingKeys: readonly Buffer[];
  readonly timeoutMs: number;
  readonly httpsOnly: boolean;
}

/** The rest of what a handler is told. */
export interface Handling {
  /** How long the batch is still ours; work that takes longer is done again by another. */
  readonly leftMs: number;
  /** Aborts when that time is over, and when the dispatcher closes. */
  readonly signal: AbortSignal;
}

/** A longer list of ids would make a header that common servers refuse. */
const LONGEST_ITEMS_HEADER = 7_500;

/** Carries batches to their targets. */
export class Courier {
  readonly #options: CourierOptions;

  constructor(options: CourierOptions) {
    this.#options = options;
  }

  /** Delivers one batch; never throws for what the receiver or the network did. */
  async deliver(batch: Batch, handling: Handling): Promise<Verdict> {
    const target = targetOf(batch.key);
    if (target === undefined) return dead(`the key names no target: ${batch.key}`);
    if (this.#options.httpsOnly && !target.url.startsWith("https:")) {
      return dead("only https targets are allowed");
    }
    const spoiled = isSingle(target.mergeKey) ? [] : unreadable(batch.items);
    if (spoiled.length > 0) return { kind: "spoiled", positions: spoiled, reason: "not JSON" };
    const { health } = this.#options;
    const admission = await health.admit(target.url).catch(notKnown);
    if (admission.verdict === "hold") {
      return { kind: "hold", reason: admission.reason, ms: admission.ms };
    }
    if (admission.verdict === "disabled") {
      return dead(`the endpoint is disabled: ${admission.reason}`);
    }
    let answer: Answer;
    try {
      answer = await this.#send(batch, target, handling);
    } catch (error) {
      return this.#failed(target.url, error, handling);
    }
    return this.#judge(batch, target.url, answer);
  }

  async #send(batch: Batch, target: Target, handling: Handling): Promise<Answer> {
    const single = isSingle(target.mergeKey);
    const body = single ? (batch.items[0]?.body ?? Buffer.alloc(0)) : joined(batch.items);
    const timestamp = Math.floor(this.#options.clock.now() / 1_000);
    const { signingKeys, timeoutMs, sender } = this.#options;
    const headers: Record<string, string> = {
      "content-type": (single && batch.items[0]?.contentType) || "application/json",
      "user-agent": "ropeway",
      "webhook-id": batch.id,
      "webhook-timestamp": String(timestamp),
    };
    const ids = batch.items.map(({ id }) => id).join(",");
    if (ids.length <= LONGEST_ITEMS_HEADER) headers["webhook-items"] = ids;
    const traceparent = currentTraceparent();
    if (traceparent !== undefined) headers.traceparent = traceparent;
    if (signingKeys.length > 0) {
      headers["webhook-signature"] = sign({ id: batch.id, timestamp, body }, signingKeys);
    }
    return sender.send({
      url: target.url,
      method: target.method,
      headers,
      body,
      timeoutMs: Math.min(timeoutMs, handling.leftMs),
      signal: handling.signal,
    });
  }

  async #judge(batch: Batch, url: string, answer: Answer): Promise<Verdict> {
    const { health, clock } = this.#options;
    const status = String(answer.status);
    if (answer.status === 207) {
      await health.report(url, { outcome: "ok", status });
      return partial(batch.items, answer.body);
    }
    if (answer.status >= 200 && answer.status < 300) {
      await health.report(url, { outcome: "ok", status });
      return DELIVERED;
    }
    const reason = `the receiver answered ${status}`;
    if (answer.status === 410) {
      await health.report(url, { outcome: "refused", status, disable: reason });
      return dead(reason);
    }
    const afterMs = retryAfterMs(answer.retryAfter, clock.now());
    const outcome = answer.status >= 500 ? "down" : "refused";
    await health.report(url, { outcome, status, retryAfterMs: afterMs });
    return { kind: "retry", reason, afterMs };
  }

  async #failed(url: string, error: unknown, handling: Handling): Promise<Verdict> {
    const blocked = blockedBy(error);
    if (blocked !== undefined) return dead(blocked.message);
    if (handling.signal.aborted) {
      return { kind: "hold", reason: "interrupted", ms: 0 };
    }
    const status = (error as NodeJS.ErrnoException).code ?? "ERROR";
    await this.#options.health.report(url, { outcome: "down", status });
    return { kind: "retry", reason: reasonOf(error) };
  }
}

/** Redis is away: nothing was tried, so nothing failed. */
function notKnown(error: unknown): Admission {
  return { verdict: "hold", ms: 1_000, reason: reasonOf(error) };
}

/** Items that would spoil the array for all others; ours were looked at when they were pushed. */
function unreadable(items: readonly Item[]): number[] {
  return items.flatMap((item, i) => (isForeign(item) && !isJson(item.body) ? [i] : []));
}

function isJson(body: Buffer): boolean {
  try {
    JSON.parse(body.toString("utf8"));
    return isUtf8(body);
  } catch {
    return false; // not JSON
  }
}

/** `[b1,b2,...]`; the bodies were checked to be JSON when they were pushed. */
function joined(items: readonly Item[]): Buffer {
  const parts: Buffer[] = [Buffer.from("[")];
  for (const [i, { body }] of items.entries()) {
    if (i > 0) parts.push(Buffer.from(","));
    parts.push(body);
  }
  parts.push(Buffer.from("]"));
  return Buffer.concat(parts);
}

/** The items a 207 names; an answer that cannot be read names them all. */
function partial(items: readonly Item[], body: Buffer | undefined): Verdict {
  const reason = "the receiver answered 207";
  const named = failedOf(body);
  if (named === undefined) {
    return { kind: "retry", reason: `${reason} without a readable list of failed items` };
  }
  const failed = items.flatMap(({ id }, i) => (named.has(id) || named.has(i) ? [i] : []));
  if (failed.length === 0) return DELIVERED;
  return { kind: "partial", failed, reason: `${reason}: ${failed.length} item(s) failed` };
}

function failedOf(body: Buffer | undefined): Set<unknown> | undefined {
  if (body === undefined) return undefined;
  try {
    const answer: unknown = JSON.parse(body.toString("utf8"));
    if (typeof answer !== "object" || answer === null || !("failed" in answer)) return undefined;
    return Array.isArray(answer.failed) ? new Set(answer.failed) : undefined;
  } catch {
    return undefined; // not JSON
  }
}

function dead(reason: string): Verdict {
  return { kind: "dead", reason };
}

function blockedBy(error: unknown): BlockedTargetError | undefined {
  if (error instanceof BlockedTargetError) return error;
  if (error instanceof AggregateError) return error.errors.map(blockedBy).find(Boolean);
  return undefined;
}
