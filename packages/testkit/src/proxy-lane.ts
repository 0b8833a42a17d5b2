// One direction of one proxied connection.
//
//   from --data--> [ queue ] --pieces--> to
//                     ^ held back while half-open, until due when delayed,
//                       cut into pieces when split, paced when throttled
//
// A new fault also applies to bytes that are already queued: it ends every wait below, and the loop
// checks again. The end of the stream is an entry of the queue, so it is delayed and held back with
// the bytes before it. Like TCP, the lane never drops or reorders bytes.
import type { Socket } from "node:net";
import { setImmediate as immediate } from "node:timers/promises";

/** The current faults of the network. */
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

// Above this limit the lane stops reading, so that the sender's socket fills up as on a slow link.
const QUEUE_LIMIT_BYTES = 256 * 1024;
const THROTTLE_TICKS_PER_SECOND = 50;

interface Entry {
  /** The bytes left to forward. Undefined for the end of the stream. */
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

  /** Makes the loop check the faults and the queue again. */
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

// Lets the receiver read one piece before the next one reaches the socket's buffer. A poll phase runs
// between two immediates, but not always after one.
async function loopTurn(): Promise<void> {
  await immediate();
  await immediate();
}
