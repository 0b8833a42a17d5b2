/**
 * A file that is being received. Iterating yields its chunks; asking for the next chunk acknowledges the
 * last one, so that it can be removed. A receiver that starts again after a crash goes on at `offset`. The
 * lease is renewed from the beginning until close(), when the handler has returned.
 */
import { createHash } from "node:crypto";
import { AbortedError, LeaseLostError } from "@ropeway/core";
import { newToken } from "@ropeway/core/internal";
import { Bell } from "../bell.ts";
import { Lease, safetyOf } from "../lease.ts";
import { kitMetrics } from "../metrics.ts";
import { CorruptFileError, TransferGoneError } from "./errors.ts";
import type { Progress } from "./options.ts";
import type { FilesStore, Taken } from "./store.ts";

const LOOK_MS = 1_000;
const DIGEST_BYTES = 32;

/** What a receiver knows of a file before its first chunk. */
export interface Announced {
  readonly id: string;
  readonly name: string;
  readonly chunkBytes: number;
  /** Undefined if the sender did not know it. */
  readonly size: number | undefined;
}

/** How a file is received. */
export interface Receiving {
  readonly receiver: string;
  readonly leaseMs: number;
  readonly onProgress: ((progress: Progress) => void) | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Where a receiver goes on. */
export interface Resumption {
  /** Chunks and bytes that it has had. */
  readonly has: number;
  readonly offset: number;
  /** When it asked for that, on the monotonic clock: its lease began then or later. */
  readonly askedAt: number;
}

/** One file, for one receiver. */
export class IncomingFile implements AsyncIterable<Buffer> {
  readonly id: string;
  readonly name: string;
  /** Undefined if the sender did not know it. */
  readonly size: number | undefined;
  readonly #store: FilesStore;
  readonly #receiving: Receiving;
  #sha256: string | undefined;
  #has: number;
  #offset: number;
  #lease: Lease;

  constructor(store: FilesStore, announced: Announced, receiving: Receiving & Resumption) {
    this.id = announced.id;
    this.name = announced.name;
    this.size = announced.size;
    this.#store = store;
    this.#receiving = receiving;
    this.#has = receiving.has;
    this.#offset = receiving.offset;
    this.#lease = this.#leaseFrom(receiving.askedAt);
  }

  /** How many bytes this receiver has had before; the first chunk begins here. */
  get offset(): number {
    return this.#offset;
  }

  /** Of the whole file, in hex; known after the last chunk. */
  get sha256(): string | undefined {
    return this.#sha256;
  }

  /** Aborts with LeaseLostError if the file goes on without this receiver. */
  get signal(): AbortSignal {
    return this.#lease.signal;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void> {
    const { receiver, signal, onProgress } = this.#receiving;
    const token = newToken();
    const bell = new Bell(signal);
    this.#store.wakes.expect(token, bell.ring);
    const digest = this.#offset === 0 ? createHash("sha256") : undefined;
    try {
      for (;;) {
        if (signal?.aborted) throw new AbortedError(`receiving ${this.name}`, signal.reason);
        const sentAt = performance.now();
        const taken = await this.#store.take(this.id, receiver, { has: this.#has, token });
        this.#lease.end();
        this.#lease = this.#leaseFrom(sentAt);
        this.#expectOwn(taken);
        if (taken.status === "wait") {
          await bell.wait(Math.min(LOOK_MS, this.#receiving.leaseMs / 3));
        } else if (taken.status === "chunk") {
          const data = this.#checked(taken);
          digest?.update(data);
          kitMetrics().noteFile("received", data.length);
          this.#offset += data.length;
          onProgress?.({ name: this.name, bytes: this.#offset, total: this.size });
          yield data;
          this.#has += 1;
        } else if (taken.status === "end") {
          this.#sha256 = taken.sha256;
          if (digest !== undefined && digest.digest("hex") !== taken.sha256) {
            throw new CorruptFileError(this.name, "the content");
          }
          return;
        } else throw new TransferGoneError(this.id, receiver);
      }
    } finally {
      this.#store.wakes.forget(token);
      bell.close();
    }
  }

  /** Ends the lease here: the handler has returned. */
  close(): void {
    this.#lease.end();
  }

  /** A lease from a step on; renewing it repeats what is known already. */
  #leaseFrom(sentAt: number): Lease {
    const { receiver, leaseMs } = this.#receiving;
    const has = this.#has;
    return new Lease({
      kind: "file",
      logger: this.#store.redis.logger,
      what: `file ${JSON.stringify(this.name)}`,
      ttlMs: leaseMs,
      renew: true,
      safeUntil: sentAt + leaseMs - safetyOf(leaseMs),
      extend: async () => {
        const { status } = await this.#store.take(this.id, receiver, { has });
        return status !== "gone" && status !== "dropped";
      },
    });
  }

  /** Another process that receives under the same name has moved on: what comes now is not what comes next here. */
  #expectOwn(taken: Taken): void {
    if (!("index" in taken) || taken.index === this.#has) return;
    throw new LeaseLostError(`file ${JSON.stringify(this.name)}`);
  }

  #checked({ data, index }: Taken & { readonly status: "chunk" }): Buffer {
    const content = data.subarray(DIGEST_BYTES);
    const sha256 = createHash("sha256").update(content).digest();
    if (!sha256.equals(data.subarray(0, DIGEST_BYTES))) {
      throw new CorruptFileError(this.name, `chunk ${index}`);
    }
    return content;
  }
}
