/**
 * Delivers a batch over HTTP and evaluates the response.
 *
 *   2xx                       delivered            207 with {"failed":[id or position, ...]}  retry these
 *   410                       endpoint disabled, batch dead
 *   other status, no response retry later; Retry-After holds the whole endpoint
 *   blocked address           dead: a retry cannot help; allow the address and replay
 *   held, disabled, breaker   not tried
 */
import { isUtf8 } from "node:buffer";
import { type Clock, TimeoutError } from "@ropeway/core";
import { currentTraceparent, reasonOf, sleep } from "@ropeway/core/internal";
import { BlockedEndpointError } from "../errors.ts";
import { type Destination, destinationOf, isSingle } from "../queue/destination.ts";
import { type Item, isForeign } from "../queue/item.ts";
import type { Batch } from "../queue/queue.ts";
import type { AttemptLog } from "./attempt-log.ts";
import { isLost } from "./batch-end.ts";
import type { Callbacks } from "./callbacks.ts";
import type { Handling } from "./dispatcher.ts";
import type { Admitted, EndpointHealth } from "./endpoint-health.ts";
import type { HttpResponse, HttpSender } from "./http-sender.ts";
import { retryAfterMs } from "./retry-after.ts";
import { sign, signingKey } from "./signature.ts";
import { DELIVERED, type Verdict } from "./verdict.ts";

/** The options of an HttpHandler. */
export interface HttpHandlerOptions {
  readonly sender: HttpSender;
  readonly health: EndpointHealth;
  readonly log: AttemptLog;
  readonly callbacks: Callbacks;
  readonly clock: Clock;
  /** Keys that sign for endpoints without their own secrets. Without keys, nothing is signed. */
  readonly signingKeys: readonly Buffer[];
  readonly timeoutMs: number;
  /** After this many attempts a batch becomes a dead letter. */
  readonly attempts: number;
  readonly httpsOnly: boolean;
  /** Receives errors that do not change the outcome of a batch. */
  error(error: unknown): void;
}

/** Common servers refuse a header with a longer list of ids. */
const LONGEST_ITEMS_HEADER = 7_500;
const LONGEST_LOGGED = 256;
const LONGEST_NAME = 60;
/** The characters that a header can contain. Another program may have written anything into the head of an item. */
const VISIBLE = /^[\x20-\x7e]*$/;
const CALLBACK_RETRY_MS = 50;

type Admission = Extract<Admitted, { readonly secrets: unknown }>;

/** Delivers batches to their endpoints. */
export class HttpHandler {
  readonly #options: HttpHandlerOptions;

  constructor(options: HttpHandlerOptions) {
    this.#options = options;
  }

  /** Delivers one batch. Never throws because of the endpoint or the network. */
  async deliver(batch: Batch, handling: Handling): Promise<Verdict> {
    const until = performance.now() + handling.leftMs;
    const to = destinationOf(batch.key);
    if (to === undefined) return dead(`the key names no endpoint: ${batch.key}`);
    if (this.#options.httpsOnly && !to.url.startsWith("https:")) {
      return dead("only https endpoints are allowed");
    }
    const invalid = isSingle(to.mergeKey) ? [] : unreadable(batch.items);
    if (invalid.length > 0) return { kind: "invalid", positions: invalid, reason: "not JSON" };
    const admission = await this.#options.health.admit(to.url).catch(unknown);
    if (admission.verdict === "hold") {
      return { kind: "hold", reason: admission.reason, ms: admission.ms };
    }
    if (admission.verdict === "disabled") {
      return dead(`the endpoint is disabled: ${admission.reason}`);
    }
    const began = performance.now();
    const leftMs = until - began;
    let response: HttpResponse | undefined;
    let verdict: Verdict;
    let failure: string | undefined;
    try {
      response = await this.#send(batch, to, { ...handling, leftMs, admission });
      const { token } = admission;
      verdict = await this.#judge(batch, { url: to.url, response, token, handling });
    } catch (error) {
      failure = failureOf(error);
      verdict = await this.#failed(error, { url: to.url, handling, token: admission.token });
    }
    const ms = performance.now() - began;
    this.#note(batch, this.#ended(batch, verdict), { response, failure, ms });
    return verdict;
  }

  /** The final verdict: a failure of the last attempt makes the batch a dead letter. */
  #ended(batch: Batch, verdict: Verdict): Verdict {
    if (verdict.kind !== "retry") return verdict;
    const attempts = batch.request.attempts ?? this.#options.attempts;
    return batch.attempt < attempts ? verdict : dead(verdict.reason);
  }

  async #send(
    batch: Batch,
    to: Destination,
    { admission, leftMs, signal }: Handling & { admission: Admission },
  ): Promise<HttpResponse> {
    const single = isSingle(to.mergeKey);
    const body = single ? (batch.items[0]?.body ?? Buffer.alloc(0)) : joined(batch.items);
    const now = this.#options.clock.now();
    const timestamp = Math.floor(now / 1_000);
    const { timeoutMs, sender } = this.#options;
    const headers: Record<string, string> = {
      ...batch.request.headers,
      "content-type": (single && typeOf(batch.items[0])) || "application/json",
      "user-agent": "ropeway",
      "webhook-id": batch.id,
      "webhook-timestamp": String(timestamp),
    };
    const ids = batch.items.map(({ id }) => id).join(",");
    if (ids.length <= LONGEST_ITEMS_HEADER && VISIBLE.test(ids)) headers["webhook-items"] = ids;
    const traceparent = currentTraceparent();
    if (traceparent !== undefined) headers.traceparent = traceparent;
    const keys = this.#keysFor(admission, now);
    if (keys.length > 0) {
      headers["webhook-signature"] = sign({ id: batch.id, timestamp, body }, keys);
    }
    return sender.send({
      ...{ url: to.url, method: to.method, headers, body, signal },
      timeoutMs: Math.min(batch.request.timeoutMs ?? timeoutMs, leftMs),
    });
  }

  /** The endpoint's own secrets that are valid now, else the common keys. */
  #keysFor({ secrets }: Admission, now: number): readonly Buffer[] {
    const valid = secrets.filter(({ until }) => until === undefined || until > now);
    return valid.length === 0
      ? this.#options.signingKeys
      : valid.map(({ secret }) => signingKey(secret));
  }

  async #judge(
    batch: Batch,
    given: { url: string; response: HttpResponse; token: string | undefined; handling: Handling },
  ): Promise<Verdict> {
    const { url, response, token, handling } = given;
    const { health, clock } = this.#options;
    const status = String(response.status);
    if (response.status >= 200 && response.status < 300) {
      await health.report(url, { outcome: "ok", status, token });
      const verdict = response.status === 207 ? partial(batch.items, response) : DELIVERED;
      if (verdict.kind === "retry" || batch.request.callback === undefined) return verdict;
      return this.#callBack(batch, { response, verdict, signal: handling.signal });
    }
    const reason = `the endpoint responded with ${status}`;
    if (response.status === 410) {
      await health.report(url, { outcome: "refused", status, disable: reason, token });
      return dead(reason);
    }
    const afterMs = retryAfterMs(response.retryAfter, clock.now());
    const outcome = response.status >= 500 ? "down" : "refused";
    await health.report(url, { outcome, status, retryAfterMs: afterMs, token });
    return { kind: "retry", reason, afterMs };
  }

  async #failed(
    error: unknown,
    given: { url: string; handling: Handling; token: string | undefined },
  ): Promise<Verdict> {
    const { url, handling, token } = given;
    const { health } = this.#options;
    const blocked = blockedBy(error);
    // A request that outlasts the lease has failed. A request that our own close() interrupted has not.
    const { aborted, reason } = handling.signal;
    const interrupted = aborted && !(reason instanceof TimeoutError);
    const code = (error as NodeJS.ErrnoException).code ?? "ERROR";
    const isOurs = code === "UND_ERR_INVALID_ARG"; // such a request cannot be sent to any endpoint
    if (blocked === undefined && !interrupted && !isOurs) {
      await health.report(url, { outcome: "down", status: code, token });
      return { kind: "retry", reason: reasonOf(error) };
    }
    if (token !== undefined) await health.report(url, { outcome: "refused", status: code, token });
    if (blocked !== undefined) return dead(blocked.message);
    return isOurs ? dead(reasonOf(error)) : { kind: "hold", reason: "interrupted", ms: 0 };
  }

  /**
   * Pushes the callback before the batch ends. Without Redis neither is possible, so it is tried until the lease
   * ends. Then the batch is delivered again, and its callback is pushed again.
   */
  async #callBack(
    batch: Batch,
    given: { response: HttpResponse; verdict: Verdict; signal: AbortSignal },
  ): Promise<Verdict> {
    const { response, verdict, signal } = given;
    const failed = verdict.kind === "partial" ? verdict.failed : [];
    for (;;) {
      try {
        await this.#options.callbacks.delivered(batch, response, failed);
        return verdict;
      } catch (error) {
        if (!isLost(error)) {
          this.#options.error(error);
          return verdict;
        }
      }
      if (signal.aborted) return { kind: "hold", reason: "its callback was not stored", ms: 0 };
      await sleep(CALLBACK_RETRY_MS, signal).catch(() => undefined); // the next iteration sees the abort
    }
  }

  #note(
    batch: Batch,
    verdict: Verdict,
    given: { response: HttpResponse | undefined; failure: string | undefined; ms: number },
  ): void {
    if (verdict.kind === "hold") return;
    const { response, ms } = given;
    const attempt = {
      ...{ key: batch.key, batch: batch.id, attempt: batch.attempt, items: batch.items.length },
      bytes: batch.items.reduce((sum, { body }) => sum + body.length, 0),
      result: verdict.kind,
      reason: verdict.kind === "delivered" ? undefined : verdict.reason,
      status: response?.status,
      response: response?.body.toString("utf8", 0, LONGEST_LOGGED),
      ms: Math.round(ms),
      at: Math.round(this.#options.clock.now()),
    };
    const refused = response && `http_${Math.floor(response.status / 100)}xx`;
    const failure = verdict.kind === "delivered" ? undefined : (given.failure ?? refused);
    this.#options.log.add(attempt, { lateMs: batch.lateMs, failure });
  }
}

/** The content type of a single item, if it can be sent. */
function typeOf(item: Item | undefined): string | undefined {
  const { contentType } = item ?? {};
  return contentType === undefined || VISIBLE.test(contentType)
    ? contentType
    : "application/octet-stream";
}

/** Redis is unreachable: nothing was tried, so nothing failed. */
function unknown(error: unknown): Admitted {
  return { verdict: "hold", ms: 1_000, reason: reasonOf(error) };
}

/** Items that would make the array invalid. Our own items were checked when they were pushed. */
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

/**
 * The items that a 207 names. A response that cannot be read, or that names anything else, counts as naming all
 * items: the endpoint reported a failure, and no failed item may count as delivered.
 */
function partial(items: readonly Item[], response: HttpResponse): Verdict {
  const reason = "the endpoint responded with 207";
  const named = response.complete ? failedOf(response.body) : undefined;
  if (named === undefined) {
    return { kind: "retry", reason: `${reason} without a readable list of failed items` };
  }
  const failed = items.flatMap(({ id }, i) => (named.has(id) || named.has(i) ? [i] : []));
  const known = new Set<unknown>(failed.flatMap((i) => [i, items[i]?.id]));
  for (const name of named) {
    if (known.has(name)) continue;
    const shown = JSON.stringify(name).slice(0, LONGEST_NAME);
    return { kind: "retry", reason: `${reason}, but no item of the batch is ${shown}` };
  }
  if (failed.length === 0) return DELIVERED;
  return { kind: "partial", failed, reason: `${reason}: ${failed.length} item(s) failed` };
}

function failedOf(body: Buffer): Set<unknown> | undefined {
  try {
    const response: unknown = JSON.parse(body.toString("utf8"));
    if (typeof response !== "object" || response === null || !("failed" in response)) {
      return undefined;
    }
    return Array.isArray(response.failed) ? new Set(response.failed) : undefined;
  } catch {
    return undefined; // not JSON
  }
}

function dead(reason: string): Verdict {
  return { kind: "dead", reason };
}

/** The reason why there was no response, as one of a few words. */
function failureOf(error: unknown): string {
  if (error instanceof TimeoutError) return "timeout";
  return blockedBy(error) === undefined ? "connection" : "blocked";
}

function blockedBy(error: unknown): BlockedEndpointError | undefined {
  if (error instanceof BlockedEndpointError) return error;
  if (error instanceof AggregateError) return error.errors.map(blockedBy).find(Boolean);
  if (error instanceof Error && error.cause !== undefined) return blockedBy(error.cause);
  return undefined;
}
