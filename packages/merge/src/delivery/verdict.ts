/** The outcome of one attempt to deliver a batch. */

/** A handler's outcome; the dispatcher turns it into one script. */
export type Verdict =
  /** The whole batch was delivered. */
  | { readonly kind: "delivered" }
  /** All but the items at these positions were delivered; only these are tried again. */
  | { readonly kind: "partial"; readonly failed: readonly number[]; readonly reason: string }
  /** The items at these positions can never be delivered and become a dead letter; the rest comes again. */
  | { readonly kind: "invalid"; readonly positions: readonly number[]; readonly reason: string }
  /** It counts as an attempt and is tried again, not before `afterMs`. */
  | { readonly kind: "retry"; readonly reason: string; readonly afterMs?: number | undefined }
  /** Nothing was tried, so it counts for nothing; it comes back in `ms`. */
  | { readonly kind: "hold"; readonly reason: string; readonly ms: number }
  /** Trying again is of no use: the batch becomes a dead letter. */
  | { readonly kind: "dead"; readonly reason: string };

/** The most common verdict. */
export const DELIVERED: Verdict = { kind: "delivered" };
