/**
 * Whether the portal can do its work: every probe passes within a bound, and the portal is not closing.
 * Requests that arrive while a probe runs share its outcome, so that a stuck Redis is not sent one PING
 * per poll.
 */
import { RopewayError } from "@ropeway/core";
import { within } from "@ropeway/core/internal";
import type { ProbeOutcome, Readiness as ReadinessView } from "../contract.ts";
import type { Probe } from "../part.ts";

/** Runs the probes. */
export class Readiness {
  readonly #withinMs: number;
  readonly #probes: ReadonlyMap<string, Probe>;
  readonly #running = new Map<string, Promise<ProbeOutcome>>();
  #draining = false;

  constructor(probes: Iterable<readonly [string, Probe]>, withinMs: number) {
    this.#probes = new Map(probes);
    this.#withinMs = withinMs;
  }

  /** From now on the portal is not ready. */
  drain(): void {
    this.#draining = true;
  }

  async check(): Promise<ReadinessView> {
    const probes = await Promise.all(
      [...this.#probes].map(([name, probe]) => this.#outcome(name, probe)),
    );
    const draining = this.#draining;
    return { ready: !draining && probes.every(({ ok }) => ok), draining, probes };
  }

  #outcome(name: string, probe: Probe): Promise<ProbeOutcome> {
    const running = this.#running.get(name) ?? this.#run(name, probe);
    this.#running.set(name, running);
    return running;
  }

  async #run(name: string, probe: Probe): Promise<ProbeOutcome> {
    const began = performance.now();
    const ms = () => Math.round(performance.now() - began);
    try {
      await within(probe(), { timeoutMs: this.#withinMs, what: `the probe ${name}` });
      return { name, ok: true, ms: ms() };
    } catch (error) {
      // Only the code, because /readyz is public and must not show addresses.
      const code = error instanceof RopewayError ? error.code : "FAILED";
      return { name, ok: false, ms: ms(), code };
    } finally {
      this.#running.delete(name);
    }
  }
}
