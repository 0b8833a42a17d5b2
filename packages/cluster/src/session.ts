/**
 * A lease that is kept alive, with a deadline of our own. The server may end the lease `ttl` after it
 * received a renewal; all we know is when we sent it. So the session is over, for us, a margin before
 * `sent + ttl`, whatever the server replies later, and never comes back: a holder that needs a lease again
 * opens a new session.
 *
 *   sent            sent + ttl/3: renew          lost: signal aborts       the server may end it
 *    |----------------|----------------- ... ---------|------- margin -----------|
 *
 * A renewal may hang with a member of the store that hangs. The next one begins soon and does not wait for it: by
 * then the other members may have a new leader. Whichever is answered counts.
 *
 * The clock is performance.now(): it does not jump with the wall clock, and it goes on counting while
 * the process is stopped.
 */

import { LeaseLostError, type Logger } from "@ropeway/core";
import { Loop, reasonOf, within } from "@ropeway/core/internal";
import { CLOSE_WITHIN_MS } from "./store/limits.ts";
import type { Store } from "./store/store.ts";

/** How a session behaves. */
export interface SessionOptions {
  readonly ttlMs: number;
  /** For messages. */
  readonly what: string;
  readonly logger: Logger;
}

/** A lease that lives as long as this process renews it. */
export class Session {
  readonly lease: string;
  readonly ttlMs: number;
  readonly #store: Store;
  readonly #options: SessionOptions;
  readonly #lost = new AbortController();
  readonly #loop: Loop;
  #deadline: NodeJS.Timeout | undefined;
  #closed = false;

  private constructor(store: Store, options: SessionOptions, grant: { id: string; ttlMs: number }) {
    this.#store = store;
    this.#options = options;
    this.lease = grant.id;
    this.ttlMs = grant.ttlMs;
    this.#loop = new Loop({
      tick: () => this.#renew(),
      onError: (error) =>
        options.logger.debug(
          { err: reasonOf(error), what: options.what },
          "a lease was not renewed",
        ),
      backoff: { baseMs: 100, maxMs: this.ttlMs / 8 },
      closeWithinMs: CLOSE_WITHIN_MS,
    });
  }

  /** Takes a lease and keeps it alive. */
  static async open(store: Store, options: SessionOptions): Promise<Session> {
    const sent = performance.now();
    const session = new Session(store, options, await store.grant(options.ttlMs));
    session.#extend(sent, session.ttlMs);
    session.#loop.start();
    return session;
  }

  /** Aborts when the lease can no longer be relied on; the reason is a LeaseLostError. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** Marks the lease as lost, for a holder whose key is gone. The store ends it later. */
  abandon(): void {
    this.#lose();
  }

  get alive(): boolean {
    return !this.#lost.signal.aborted && !this.#closed;
  }

  /**
   * Ends the lease, and with it its keys; an unreachable store ends it by itself. A lost lease is ended too:
   * it may live on in the store, and the next session would wait for its keys.
   */
  async close(): Promise<void> {
    if (this.#closed) return;
    // Lost because the store is unreachable: it will hardly respond now.
    const timeoutMs = this.alive ? 3_000 : CLOSE_WITHIN_MS;
    this.#closed = true;
    clearTimeout(this.#deadline);
    const revoking = within(this.#store.revoke(this.lease), { timeoutMs }).catch((error) =>
      this.#options.logger.debug({ err: reasonOf(error) }, "a lease was not revoked; it will end"),
    );
    await Promise.all([revoking, this.#loop.close()]);
  }

  async #renew(): Promise<number> {
    const pauseMs = this.ttlMs / 3;
    if (performance.now() - this.#renewedAt < pauseMs / 2) return pauseMs;
    await within(this.#sendRenewal(), { timeoutMs: this.ttlMs / 8, what: "renewing a lease" });
    return pauseMs;
  }

  /** A late response counts too. It proves less the later it comes, because the lease counts from when it was sent. */
  async #sendRenewal(): Promise<void> {
    const sent = performance.now();
    const ttlMs = await this.#store.keepAlive(this.lease);
    if (ttlMs <= 0) this.#lose();
    else this.#extend(sent, ttlMs);
  }

  #renewedAt = 0;

  #extend(sent: number, ttlMs: number): void {
    if (this.#lost.signal.aborted || this.#closed || sent < this.#renewedAt) return;
    this.#renewedAt = sent;
    clearTimeout(this.#deadline);
    const margin = Math.max(ttlMs / 5, Math.min(1_000, ttlMs / 3));
    const left = sent + ttlMs - margin - performance.now();
    if (left <= 0) this.#lose();
    else this.#deadline = setTimeout(() => this.#lose(), left);
  }

  #lose(): void {
    clearTimeout(this.#deadline);
    if (!this.#closed) this.#lost.abort(new LeaseLostError(this.#options.what));
  }
}
