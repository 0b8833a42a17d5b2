/**
 * Limits the memory for request bodies that are still arriving. A body is kept in memory until it is whole, and
 * its sender may take a minute: 10,000 connections with 1 MiB each would be 10 GB. Small bodies are not
 * counted. For larger ones, there is a maximum number of bytes per account and in total.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { OverloadedError } from "@ropeway/core";
import { ByteBudget } from "./byte-budget.ts";

/** The largest body that is not counted; also the limit for bodies of requests without an account. */
export const SMALL_BODY_BYTES = 16_384;
const MOST_BYTES = 256 * 1_048_576;
const MOST_BYTES_OF_ONE = 32 * 1_048_576;

/** A body that is about to arrive. */
export interface ComingBody {
  readonly headers: IncomingHttpHeaders;
  /** The largest body that the route accepts. */
  readonly limit: number;
  readonly response: ServerResponse;
  /** The account that sends it. */
  readonly owner?: string | undefined;
}

/** The bodies of one port. */
export class BodyBudget {
  readonly #bytes: ByteBudget;

  /** `port` names it in errors, such as "the portal". */
  constructor(port: string) {
    this.#bytes = new ByteBudget({
      port,
      most: MOST_BYTES,
      mostOfOne: MOST_BYTES_OF_ONE,
      full: "too many large bodies are being sent",
      fullOfOne: "the account is sending too many large bodies",
    });
  }

  /** The bytes of the bodies that are counted now. */
  get held(): number {
    return this.#bytes.held;
  }

  /**
   * Why the body of a request must not be read; undefined if there is room. Then it counts until the
   * response has ended. A limit is never smaller than one body that the route accepts.
   */
  refusal({ headers, limit, response, owner }: ComingBody): OverloadedError | undefined {
    const bytes = sizeOf(headers, limit);
    if (bytes <= SMALL_BODY_BYTES || bytes > limit) return undefined; // too large: refused unread
    return this.#bytes.refusal({ bytes, limit, response, owner });
  }

  /** Lets the body of a request count until the work with it has ended too. */
  during(response: ServerResponse, work: Promise<unknown>): void {
    this.#bytes.during(response, work);
  }
}

/** How large the body will be; without a length, as large as it may be. */
function sizeOf(headers: IncomingHttpHeaders, limit: number): number {
  if (headers["transfer-encoding"] !== undefined) return limit;
  return Number(headers["content-length"] ?? 0);
}
