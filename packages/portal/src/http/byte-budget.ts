/** Limits how many bytes the requests of one port may hold in memory at a time: in total, and of one account. */
import type { ServerResponse } from "node:http";
import { OverloadedError } from "@ropeway/core";

/** The bounds of a budget, and what its errors say. */
export interface ByteBudgetOptions {
  /** The name of the port, such as "the portal". */
  readonly port: string;
  readonly most: number;
  readonly mostOfOne: number;
  readonly full: string;
  readonly fullOfOne: string;
}

/** What a request is about to hold. */
export interface HeldBytes {
  readonly bytes: number;
  /** The most that one request may hold. No bound is smaller than this. @default 0 */
  readonly limit?: number;
  readonly response: ServerResponse;
  readonly owner?: string | undefined;
}

/** The bytes of one response. */
interface Hold {
  readonly bytes: number;
  readonly owner: string | undefined;
  /** What has not ended: the response, and the work for it. */
  open: number;
}

/** The bytes of one kind that a port holds. */
export class ByteBudget {
  readonly #options: ByteBudgetOptions;
  #held = 0;
  readonly #heldBy = new Map<string, number>();
  readonly #holds = new WeakMap<ServerResponse, Hold>();

  constructor(options: ByteBudgetOptions) {
    this.#options = options;
  }

  /** The bytes that are counted now. */
  get held(): number {
    return this.#held;
  }

  /**
   * Why there is no room; undefined if there is. Then the bytes count until the response has ended, and the work that
   * is passed to during() as well.
   */
  refusal({ bytes, limit = 0, response, owner }: HeldBytes): OverloadedError | undefined {
    if (response.destroyed) return undefined; // it has ended already, and would never give the bytes back
    const { port, most, mostOfOne, full, fullOfOne } = this.#options;
    if (this.#held + bytes > Math.max(most, limit)) return new OverloadedError(port, full);
    const ofOwner = owner === undefined ? 0 : (this.#heldBy.get(owner) ?? 0) + bytes;
    if (ofOwner > Math.max(mostOfOne, limit)) return new OverloadedError(port, fullOfOne);
    this.#held += bytes;
    if (owner !== undefined) this.#heldBy.set(owner, ofOwner);
    const hold: Hold = { bytes, owner, open: 1 };
    this.#holds.set(response, hold);
    response.once("close", () => this.#end(response, hold));
    return undefined;
  }

  /**
   * Lets the bytes of a response count until the work for it has ended too. A client that disconnects ends its
   * response, but not the commands that are on their way to Redis.
   */
  during(response: ServerResponse, work: Promise<unknown>): void {
    const hold = this.#holds.get(response);
    if (hold === undefined) return;
    hold.open += 1;
    const end = () => this.#end(response, hold);
    work.then(end, end);
  }

  #end(response: ServerResponse, hold: Hold): void {
    hold.open -= 1;
    if (hold.open > 0) return;
    const { bytes, owner } = hold;
    this.#holds.delete(response);
    this.#held -= bytes;
    if (owner === undefined) return;
    const left = (this.#heldBy.get(owner) ?? 0) - bytes;
    if (left > 0) this.#heldBy.set(owner, left);
    else this.#heldBy.delete(owner);
  }
}
