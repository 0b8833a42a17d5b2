/** The endpoints of a merge queue: health, pause, limits, secrets. */

import { randomBytes } from "node:crypto";
import { InvalidArgumentError, type Page } from "@ropeway/core";
import { checkUrl } from "../queue/destination.ts";
import type { MergeQueue } from "../queue/queue.ts";
import { requireQueue } from "../queue/require-queue.ts";
import { type Endpoint, EndpointStore, secretsText } from "../store/endpoint-store.ts";
import { checkNames, nextPage, type PageOptions, pageOf } from "./paging.ts";

/** Flow control of one endpoint, over all dispatchers. */
export interface EndpointLimits {
  /** The maximum number of deliveries per second; undefined for none. */
  readonly ratePerSecond?: number | undefined;
  /** The maximum number of deliveries at a time; undefined for none. */
  readonly concurrency?: number | undefined;
}

/** The options of rotateSecret(). */
export interface RotateOptions {
  /** How long the previous secret keeps signing, together with the new one. @default 86400000, a day */
  readonly graceMs?: number;
}

const MOST_SECRETS = 4;

/** Lists, pauses, limits and signs for the endpoints of a merge queue. */
export class Endpoints {
  readonly #store: EndpointStore;

  constructor(queue: MergeQueue) {
    requireQueue(queue);
    this.#store = new EndpointStore(queue.redis, queue.keys);
  }

  /** The endpoints, last used first. Records that expired are left out. */
  async list(options: PageOptions = {}): Promise<Page<Endpoint>> {
    const { from, limit } = pageOf(options);
    const urls = await this.#store.urls(from, limit);
    const found = await Promise.all(urls.map((url) => this.#store.read(url)));
    const items = found.filter((endpoint) => endpoint !== undefined);
    return { items, ...nextPage(urls.length < limit ? undefined : from + limit) };
  }

  /** One endpoint; undefined if it was never called, or its record has expired. */
  async get(url: string): Promise<Endpoint | undefined> {
    return this.#store.read(checkUrl(url));
  }

  /** Allows calls to an endpoint again. Throws UnknownEndpointError. */
  async enable(url: string): Promise<void> {
    await this.#store.enable(checkUrl(url));
  }

  /** Stops calls to an endpoint. Batches that come due for it become dead letters. */
  async disable(url: string, reason: string = "by an operator"): Promise<void> {
    if (typeof reason !== "string" || reason === "" || reason.length > 200) {
      throw new InvalidArgumentError("reason", reason, "a string of 1 to 200 characters");
    }
    await this.#store.mark(checkUrl(url), { set: { disabled: reason } });
  }

  /** Holds batches that come due for an endpoint until enable(). Then they fire within seconds. */
  async pause(url: string): Promise<void> {
    await this.#store.mark(checkUrl(url), { set: { paused: "1" } });
  }

  /** Limits the deliveries to an endpoint. A limit that is left out is removed. */
  async limit(url: string, limits: EndpointLimits): Promise<void> {
    checkNames(limits, ["ratePerSecond", "concurrency"]); // a misspelt limit would remove the others
    const { ratePerSecond, concurrency } = limits;
    const rateFits =
      ratePerSecond === undefined ||
      (typeof ratePerSecond === "number" && ratePerSecond >= 1e-6 && ratePerSecond <= 1e6);
    if (!rateFits) {
      throw new InvalidArgumentError("ratePerSecond", ratePerSecond, "0.000001 to 1000000");
    }
    if (concurrency !== undefined && !(Number.isSafeInteger(concurrency) && concurrency >= 1)) {
      throw new InvalidArgumentError("concurrency", concurrency, "a whole number of at least 1");
    }
    const set: Record<string, string> = {};
    if (ratePerSecond !== undefined) set.rate = String(ratePerSecond);
    if (concurrency !== undefined) set.concurrency = String(concurrency);
    const unset = ["rate", "concurrency"].filter((field) => !Object.hasOwn(set, field));
    await this.#store.mark(checkUrl(url), { set, unset: [...unset, "tat", "booked"] });
  }

  /**
   * Gives an endpoint its own new secret (whsec_...) and returns it; it is not shown again.
   * Deliveries are signed with it instead of the dispatcher's keys. The previous secret also signs for
   * `graceMs`, so that the endpoint can switch without a gap.
   */
  async rotateSecret(url: string, { graceMs = 86_400_000 }: RotateOptions = {}): Promise<string> {
    if (!(graceMs >= 0) || !(graceMs <= 31_536_000_000)) {
      throw new InvalidArgumentError("graceMs", graceMs, "a number of milliseconds up to a year");
    }
    const endpoint = checkUrl(url);
    const secret = `whsec_${randomBytes(32).toString("base64")}`;
    const now = await this.#store.now();
    const until = Math.round(now + graceMs);
    // If several operators rotate at the same time, one is first and the others add theirs to its secrets.
    for (;;) {
      const { stored, secrets: seen } = await this.#store.secrets(endpoint);
      const before = seen
        .map((each) => ({ ...each, until: Math.min(each.until ?? until, until) }))
        .filter((each) => each.until > now);
      const secrets = secretsText([{ secret }, ...before].slice(0, MOST_SECRETS));
      if (await this.#store.mark(endpoint, { set: { secrets }, seen: stored })) return secret;
    }
  }

  /** Removes an endpoint's own secrets: the dispatcher's keys sign again. */
  async removeSecrets(url: string): Promise<void> {
    await this.#store.mark(checkUrl(url), { unset: ["secrets"] });
  }
}
