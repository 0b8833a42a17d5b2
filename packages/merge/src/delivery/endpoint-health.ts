/**
 * The shared knowledge of all dispatchers about the endpoints: which asked to wait, which is gone, which
 * origin is down. It is stored in Redis (admit.lua and report.lua draw the breaker). A healthy endpoint without
 * limits costs no commands:
 *
 *   admit: "go" is cached for a second       report: successes are counted here and written once a second
 *
 * Everything else (failures, holds, probes, limits) is sent to Redis at once and clears that cache.
 */
import { type Logger, WrongKeyTypeError } from "@ropeway/core";
import { Loop, newToken } from "@ropeway/core/internal";
import type {
  Admission,
  BreakerNumbers,
  EndpointStore,
  StoredSecret,
} from "../store/endpoint-store.ts";

/** An admission and, if it is limited, the token that its report must contain. */
export type Admitted = Admission & { readonly token?: string | undefined };

/** The result of a call. */
export interface Report {
  /** `refused`: the endpoint responded, but not with success, so the origin is alive. */
  readonly outcome: "ok" | "refused" | "down";
  /** An HTTP status or an error's code. */
  readonly status: string;
  /** The delay that Retry-After asked for. */
  readonly retryAfterMs?: number | undefined;
  /** Why the endpoint must not be called any more. */
  readonly disable?: string | undefined;
  /** The token of a limited admission. */
  readonly token?: string | undefined;
}

/** The options of EndpointHealth. */
export interface EndpointHealthOptions {
  readonly breaker: BreakerNumbers;
  /** After this time a call that never reported no longer counts. */
  readonly forgetMs: number;
  readonly logger: Logger;
  /** Receives errors that do not prevent calls. */
  error(error: unknown): void;
}

interface Fine {
  calls: number;
  status: string;
  readonly secrets: readonly StoredSecret[];
}

const BELIEF_MS = 1_000;

/** The health of all endpoints of one prefix, as one dispatcher uses it. */
export class EndpointHealth implements AsyncDisposable {
  readonly #store: EndpointStore;
  readonly #options: EndpointHealthOptions;
  /** Healthy endpoints, with the successes not written yet. */
  readonly #fine = new Map<string, Fine>();
  readonly #writer: Loop;

  constructor(store: EndpointStore, options: EndpointHealthOptions) {
    this.#store = store;
    this.#options = options;
    this.#writer = new Loop({
      tick: async () => {
        await this.#flush();
        return BELIEF_MS;
      },
      onError: (error) => options.logger.debug({ err: error }, "cannot write endpoint health"),
    });
  }

  /** Starts writing. */
  start(): this {
    this.#writer.start();
    return this;
  }

  /** Whether the endpoint may be called now; a "probe" and a "limited" call must be reported. */
  async admit(url: string): Promise<Admitted> {
    const fine = this.#fine.get(url);
    if (fine !== undefined) return { verdict: "go", secrets: fine.secrets, wrong: "" };
    const token = newToken();
    const { forgetMs } = this.#options;
    const admission = await this.#store.admit(url, { token, forgetMs });
    if ("wrong" in admission && admission.wrong !== "") {
      this.#options.error(new WrongKeyTypeError(admission.wrong));
    }
    if (admission.verdict === "go") {
      this.#fine.set(url, { calls: 0, status: "", secrets: admission.secrets });
    }
    const isCounted = admission.verdict === "limited" || admission.verdict === "probe";
    return isCounted ? { ...admission, token } : admission;
  }

  /** Records the result of a call. Never throws, because the outcome of the batch does not depend on it. */
  async report(url: string, noted: Report): Promise<void> {
    try {
      await this.#report(url, noted);
    } catch (error) {
      this.#options.logger.warn({ url, err: error }, "cannot write endpoint health");
    }
  }

  /** Writes the counts that are left. */
  async close(): Promise<void> {
    await this.#writer.close();
    await this.#flush().catch((error) =>
      this.#options.logger.warn({ err: error }, "cannot write endpoint health"),
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #report(url: string, noted: Report): Promise<void> {
    const fine = this.#fine.get(url);
    if (noted.outcome === "ok" && fine !== undefined && noted.token === undefined) {
      fine.calls += 1;
      fine.status = noted.status;
      return;
    }
    this.#fine.delete(url);
    if (fine !== undefined && fine.calls > 0) await this.#write(url, fine);
    const { breaker, forgetMs } = this.#options;
    await this.#store.report({ url, ...noted, calls: 1, breaker, forgetMs });
  }

  async #flush(): Promise<void> {
    const fine = [...this.#fine];
    this.#fine.clear();
    await Promise.all(
      fine.map(([url, known]) => (known.calls > 0 ? this.#write(url, known) : undefined)),
    );
  }

  async #write(url: string, { calls, status }: Fine): Promise<void> {
    const { breaker, forgetMs } = this.#options;
    await this.#store.report({ url, outcome: "ok", calls, status, breaker, forgetMs });
  }
}
