/** Where the calls of one method go, and how they fared: found once per method, then used by all. */

import { InvalidNameError } from "../errors.ts";
import { Histogram } from "../telemetry/histogram.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Dialect } from "../wire/dialect.ts";

/** See the top of the file. */
export class Route {
  readonly service: string;
  readonly method: string;
  /** The request list. */
  readonly list: string;
  readonly stats: Histogram = new Histogram();
  /** See Dialect.plainMiddle; found by the desk, which knows the reply list. */
  plainMiddle: string | undefined;
  readonly #metrics: Metrics;
  readonly #ok: Record<string, string>;
  readonly #failed: Record<string, string>;

  constructor(dialect: Dialect, metrics: Metrics, name: { service: string; method: string }) {
    const { service, method } = name;
    if (method === "") throw new InvalidNameError(method);
    this.service = service;
    this.method = method;
    this.list = dialect.keys.request(service, method);
    this.#metrics = metrics;
    this.#ok = { service, method, outcome: "ok" };
    this.#failed = { service, method, outcome: "error" };
  }

  /** "user.add_user", for messages. */
  get name(): string {
    return this.service === "" ? this.method : `${this.service}.${this.method}`;
  }

  record(ms: number, failed: boolean): void {
    this.stats.record(ms, failed);
    this.#metrics.duration(ms, failed ? this.#failed : this.#ok);
  }
}

/** "user.add_user" is method add_user of service user; the kw wire has functions only. */
export function splitTarget(dialect: Dialect, target: string): { service: string; method: string } {
  if (dialect.name === "kw") return { service: "", method: target };
  const at = target.lastIndexOf(".");
  if (at <= 0) throw new InvalidNameError(target);
  return { service: target.slice(0, at), method: target.slice(at + 1) };
}
