/** The list and the statistics of one method's calls, looked up once per method. */
import { Histogram } from "../telemetry/histogram.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import type { Dialect, Target } from "../wire/dialect.ts";

/** The input of a route. */
export interface RouteHost {
  readonly dialect: Dialect;
  readonly metrics: Metrics;
  readonly replyList: string;
  /** The timeout of calls that do not set one. */
  readonly timeoutMs: number;
}

/** The route to one method of one service. */
export class Route implements Target {
  readonly service: string;
  readonly method: string;
  /** "user.add_user", for messages and statistics. */
  readonly name: string;
  /** The request list. */
  readonly list: string;
  readonly stats: Histogram = new Histogram();
  /** See Dialect.plainMiddle, for calls with the default timeout. */
  readonly plainMiddle: string | undefined;
  readonly #metrics: Metrics;
  readonly #ok: Record<string, string>;
  readonly #failed: Record<string, string>;

  constructor(host: RouteHost, { service, method }: Target) {
    const { dialect, metrics, replyList, timeoutMs } = host;
    this.service = service;
    this.method = method;
    this.name = service === "" ? method : `${service}.${method}`;
    this.list = dialect.keys.request(service, method);
    this.plainMiddle = dialect.plainMiddle(method, replyList, timeoutMs);
    this.#metrics = metrics;
    this.#ok = { service, method, outcome: "ok" };
    this.#failed = { service, method, outcome: "error" };
  }

  /** Records a call that ended `at`, by performance.now(). */
  record(ms: number, failed: boolean, at: number): void {
    this.stats.record(ms, failed, at);
    this.#metrics.duration(ms, failed ? this.#failed : this.#ok);
  }
}
