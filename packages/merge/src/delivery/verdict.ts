/** The outcome of one attempt to deliver a batch. */
import { InvalidArgumentError } from "@ropeway/core";

/** A handler's outcome; the dispatcher turns it into one script. */
export type Verdict =
  /** The whole batch was delivered. */
  | { readonly kind: "delivered" }
  /** All but the items at these positions were delivered; only these are tried again. */
  | { readonly kind: "partial"; readonly failed: readonly number[]; readonly reason: string }
  /** The items at these positions can never be delivered and become a dead letter; the rest is delivered again. */
  | { readonly kind: "invalid"; readonly positions: readonly number[]; readonly reason: string }
  /** It counts as an attempt and is tried again, not before `afterMs`. */
  | { readonly kind: "retry"; readonly reason: string; readonly afterMs?: number | undefined }
  /** Nothing was tried, so it does not count as an attempt; it is tried again in `ms`. */
  | { readonly kind: "hold"; readonly reason: string; readonly ms: number }
  /** A retry cannot succeed: the batch becomes a dead letter. */
  | { readonly kind: "dead"; readonly reason: string };

/** The most common verdict. */
export const DELIVERED: Verdict = { kind: "delivered" };

const LONGEST_MS = 31_536_000_000;

/**
 * A handler's return value as a verdict on a batch of `size` items, with sorted, unique positions.
 * Throws InvalidArgumentError: a wrong position must not make an item look delivered.
 */
export function checkVerdict(given: unknown, size: number): Verdict {
  if (given === undefined || given === null) return DELIVERED;
  const verdict = (typeof given === "object" && given !== null ? given : {}) as Partial<Verdict>;
  if (verdict.kind === "delivered") return DELIVERED;
  const { reason } = verdict as { reason?: unknown };
  if (!KINDS.includes(String(verdict.kind)) || typeof reason !== "string") {
    const allowed = `nothing, or an object with a kind (delivered, ${KINDS.join(", ")}) and a reason`;
    throw new InvalidArgumentError("the handler's return value", given, allowed);
  }
  switch (verdict.kind) {
    case "partial": {
      const failed = checkPositions("failed", verdict.failed, size);
      return failed.length === 0 ? DELIVERED : { kind: "partial", failed, reason };
    }
    case "invalid":
      return {
        kind: "invalid",
        positions: checkPositions("positions", verdict.positions, size),
        reason,
      };
    case "retry":
      if (verdict.afterMs !== undefined) checkMs("afterMs", verdict.afterMs);
      break;
    case "hold":
      checkMs("ms", verdict.ms);
  }
  return verdict as Verdict;
}

const KINDS: readonly string[] = ["partial", "invalid", "retry", "hold", "dead"];

function checkPositions(name: string, given: unknown, size: number): readonly number[] {
  const isFit =
    Array.isArray(given) &&
    given.every((each) => Number.isSafeInteger(each) && each >= 0 && each < size);
  if (isFit) return [...new Set<number>(given)].sort((a, b) => a - b);
  const allowed = `a list of positions in the batch, 0 to ${size - 1}`;
  throw new InvalidArgumentError(name, given, allowed);
}

function checkMs(name: string, ms: unknown): void {
  if (typeof ms === "number" && ms >= 0 && ms <= LONGEST_MS) return;
  throw new InvalidArgumentError(name, ms, `a number of milliseconds from 0 to ${LONGEST_MS}`);
}
