/**
 * Limits the memory for request bodies that are still arriving. A body is kept in memory until it is whole, and
 * its sender may take a minute: 10,000 connections with 1 MiB each would be 10 GB. Small bodies are not
 * counted. For larger ones, there is a maximum number of bytes per account and in total.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { OverloadedError } from "@ropeway/core";

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
  readonly #port: string;
  #held = 0;
  readonly #heldBy = new Map<string, number>();

  /** `port` names it in errors, such as "the portal". */
  constructor(port: string) {
    this.#port = port;
  }

  /** The bytes of the bodies that are counted now. */
  get held(): number {
    return this.#held;
  }

  /**
   * Why the body of a request must not be read; undefined if there is room. Then it counts until the
   * response has ended. A limit is never smaller than one body that the route accepts.
   */
  refusal({ headers, limit, response, owner }: ComingBody): OverloadedError | undefined {
    const bytes = sizeOf(headers, limit);
    if (bytes <= SMALL_BODY_BYTES || bytes > limit) return undefined; // too large: refused unread
    if (this.#held + bytes > Math.max(MOST_BYTES, limit)) {
      return new OverloadedError(this.#port, "too many large bodies are being sent");
    }
    const ofOwner = owner === undefined ? 0 : (this.#heldBy.get(owner) ?? 0) + bytes;
    if (ofOwner > Math.max(MOST_BYTES_OF_ONE, limit)) {
      return new OverloadedError(this.#port, "the account is sending too many large bodies");
    }
    this.#held += bytes;
    if (owner !== undefined) this.#heldBy.set(owner, ofOwner);
    response.once("close", () => this.#release(bytes, owner));
    return undefined;
  }

  #release(bytes: number, owner: string | undefined): void {
    this.#held -= bytes;
    if (owner === undefined) return;
    const left = (this.#heldBy.get(owner) ?? 0) - bytes;
    if (left > 0) this.#heldBy.set(owner, left);
    else this.#heldBy.delete(owner);
  }
}

/** How large the body will be; without a length, as large as it may be. */
function sizeOf(headers: IncomingHttpHeaders, limit: number): number {
  if (headers["transfer-encoding"] !== undefined) return limit;
  return Number(headers["content-length"] ?? 0);
}
