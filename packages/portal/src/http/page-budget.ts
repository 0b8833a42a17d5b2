/**
 * Limits the memory for large pages that are being read. A request for a page has a hundred bytes and its response
 * up to a MiB, and a client that sends many requests need not read a response. Without a limit, the replies would
 * fill the memory of Redis and the responses that of this process.
 */
import { ByteBudget } from "./byte-budget.ts";

/** The maximum of all bodies on a page of the v3 interface, and of the jobs on a page. */
export const LARGE_PAGE_BYTES = 1_048_576;
/** The maximum of all bodies on other pages of items. */
export const PAGE_BYTES = 262_144;

/** The pages of one port, which is named in errors. */
export function pageBudget(port: string): ByteBudget {
  return new ByteBudget({
    port,
    most: 128 * 1_048_576,
    mostOfOne: 32 * 1_048_576,
    full: "too many large pages are being read",
    fullOfOne: "the account is reading too many large pages",
  });
}
