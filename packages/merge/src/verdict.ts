/** What became of a batch that was handed to a handler. */

/** The handler's answer; the dispatcher turns it into one script. */
export type Verdict =
  /** All of it arrived. */
  | { readonly kind: "delivered" }
  /** All but these positions arrived; only these are tried again. */
  | { readonly kind: "partial"; readonly failed: readonly number[]; readonly reason: string }
  /** These positions can never be delivered and become a dead letter; the rest comes again at once. */
  | { readonly kind: "spoiled"; readonly positions: readonly number[]; readonly reason: string }
  /** It counts as an attempt and is tried again, not before `afterMs`. */
  | { readonly kind: "retry"; readonly reason: string; readonly afterMs?: number | undefined }
  /** Nothing was tried; it comes back in `ms`. */
  | { readonly kind: "hold"; readonly reason: string; readonly ms: number }
  /** Trying again is of no use. */
  | { readonly kind: "dead"; readonly reason: string };

/** The most common verdict. */
export const DELIVERED: Verdict = { kind: "delivered" };
