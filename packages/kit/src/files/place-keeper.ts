/**
 * Renews the leases of a receiver for files that were announced after the one it is receiving. Its lease for
 * such a file begins with the file, and it asks for the first chunk only when it is done with those before it.
 */
import type { Redis } from "@ropeway/core";

/** How places are kept. */
export interface PlacePlan {
  readonly redis: Redis;
  readonly leaseMs: number;
  /** Renews the lease of every file behind. */
  renew(): Promise<void>;
}

/** A lease survives one renewal that fails. */
const RENEWALS_PER_LEASE = 3;

/** Runs `work`, and renews the leases meanwhile. */
export async function keepingPlaces<T>(plan: PlacePlan, work: () => Promise<T>): Promise<T> {
  const { redis, leaseMs } = plan;
  let over = false;
  let timer: NodeJS.Timeout | undefined;
  const next = () => {
    if (!over) timer = setTimeout(tick, leaseMs / RENEWALS_PER_LEASE).unref();
  };
  const tick = () => {
    const failed = (error: unknown) => redis.logger.debug({ err: error }, "cannot renew a lease");
    plan.renew().catch(failed).finally(next);
  };
  next();
  try {
    return await work();
  } finally {
    over = true;
    clearTimeout(timer);
  }
}
