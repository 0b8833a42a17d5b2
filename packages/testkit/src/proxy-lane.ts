// One direction of one proxied connection.
//
//   from --data--> [ queue ] --pieces--> to
//                     ^ held back while half-open, until due when delayed,
//                       cut into pieces when split, paced when throttled
//
// Faults change what happens to bytes already queued too: every wait below ends early when they
// change, and the loop looks again. The end of the stream is an entry of the queue like any other,
// so it is delayed and held back with the bytes before it. Bytes are never dropped or reordered:
// TCP would not do that either.
import type { Socket } from "node:net";
import { setImmediate as immediate } from "node:timers/promises";

/** What is wrong with the network now. */
export interface Faults {
  readonly delayMs: number;
  readonly bytesPerSecond: number;
  readonly pieceBytes: number;
  readonly halfOpen: boolean;
}

/** A network without faults. */
export const HEALTHY: Faults = {
  delayMs: 0,
  bytesPerSecond: Number.POSITIVE_INFINITY,
  pieceBytes: Number.POSITIVE_INFINITY,
  halfOpen: false,
};

// Beyond this the sender is no longer read, so that its own socket fills up as on a slow link.
const QUEUE_LIMIT_BYTES = 256 * 1024;
const THROTTLE_TICKS_PER_SECOND = 50;

interface Entry {
  /** The bytes left to forward; none for the end of the stream. */
  bytes: Buffer | undefined;
  readonly arrivedAt: number;
}

/** Forwards bytes from one socket to another under the current faults. */
export class ProxyLane {
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #faults: () => Faults;
  readonly #queue: Entry[] = [];
  #queuedBytes = 0;
  #closed = false;
  #wake: (() => void) | undefined;

  constructor(from: Socket, to: Socket, faults: () => Faults) {
    this.#from = from;
    this.#to = to;
    this.#faults = faults;
    from.on("data", (bytes: Buffer) => this.#push(bytes));
    from.once("end", () => this.#push(undefined));
  }

  #push(bytes: Buffer | undefined): void {
    this.#queue.push({ bytes, arrivedAt: performance.now() });
    this.#queuedBytes += bytes?.length ?? 0;
    if (this.#queuedBytes > QUEUE_LIMIT_BYTES) this.#from.pause();
    this.kick();
  }

  /** Faults or queue have changed: look again. */
  kick(): void {
    this.#wake?.();
  }

  close(): void {
    this.#closed = true;
    this.kick();
  }

  /** Forwards until the stream has ended or the lane is closed. */
  async run(): Promise<void> {
    while (!this.#closed) {
      const entry = this.#queue[0];
      const { halfOpen, delayMs } = this.#faults();
      if (entry === undefined || halfOpen) {
        await this.#rest();
        continue;
      }
      const earlyMs = entry.arrivedAt + delayMs - performance.now();
      if (earlyMs > 0) {
        await this.#rest(earlyMs);
        continue;
      }
      if (entry.bytes === undefined) {
        this.#to.end();
        return;
      }
      await this.#forward(entry, entry.bytes);
    }
  }

  async #forward(entry: Entry, bytes: Buffer): Promise<void> {
    const { pieceBytes, bytesPerSecond } = this.#faults();
    const perTick = Math.max(1, Math.floor(bytesPerSecond / THROTTLE_TICKS_PER_SECOND));
    const piece = bytes.subarray(0, Math.min(pieceBytes, perTick));
    await new Promise<void>((resolve) => this.#to.write(piece, () => resolve()));
    this.#queuedBytes -= piece.length;
    if (this.#queuedBytes <= QUEUE_LIMIT_BYTES) this.#from.resume();
    if (piece.length === bytes.length) this.#queue.shift();
    else entry.bytes = bytes.subarray(piece.length);
    if (Number.isFinite(bytesPerSecond)) await this.#rest((piece.length / bytesPerSecond) * 1000);
    else if (Number.isFinite(pieceBytes)) await loopTurn();
  }

  #rest(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(() => this.#wake?.(), ms);
      this.#wake = () => {
        clearTimeout(timer);
        this.#wake = undefined;
        resolve();
      };
    });
  }
}

// Leaves the receiver a turn to read one piece before the next joins it in the socket's buffer:
// two immediates have a poll phase between them, one need not.
async function loopTurn(): Promise<void> {
  await immediate();
  await immediate();
}
