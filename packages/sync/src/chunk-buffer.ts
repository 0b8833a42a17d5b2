/**
 * The bytes that a push-fed reader has received and not yet used up.
 *
 *      bytes   | used up | kept |  unread   | spare |
 *              0       start   pos         end
 *
 * A chunk that arrives when nothing is kept is read in place, without a copy. Otherwise it is appended
 * after the kept bytes, in memory that no other code writes to; so views that were handed out stay
 * valid. Memory grows with the bytes received, never with a length that the input claims.
 */

/** Fields are public, because readers work on them in their inner loops. */
export class ChunkBuffer {
  bytes: Buffer = Buffer.alloc(0);
  /** The first byte that is still needed. */
  start = 0;
  /** Where reading continues. */
  pos = 0;
  end = 0;
  /** The offset of `bytes[0]` in the whole input. */
  base = 0;
  /** How many bytes from `start` the reader needs before it can continue, as far as it knows. */
  want = 0;
  #owned = false;

  /** How many bytes of the input are before `pos`. */
  get offset(): number {
    return this.base + this.pos;
  }

  append(chunk: Buffer): void {
    const kept = this.end - this.start;
    if (kept === 0) {
      this.base += this.end;
      this.bytes = chunk;
      this.#owned = false;
      this.start = 0;
      this.pos = 0;
      this.end = chunk.length;
      return;
    }
    if (!this.#owned || this.end + chunk.length > this.bytes.length) {
      this.#move(kept, chunk.length);
    }
    this.bytes.set(chunk, this.end);
    this.end += chunk.length;
  }

  /** Copies the kept bytes to the front of a larger buffer. */
  #move(kept: number, more: number): void {
    // Doubling keeps single-byte chunks linear. Using `want` saves the last doublings; it is trusted only once
    // an eighth of it has arrived.
    const target = this.want > kept && this.want <= kept * 8 ? this.want : kept * 2;
    const room = Math.max(kept + more, target, SMALLEST);
    const bytes = Buffer.allocUnsafeSlow(room);
    this.bytes.copy(bytes, 0, this.start, this.end);
    this.base += this.start;
    this.pos -= this.start;
    this.start = 0;
    this.end = kept;
    this.bytes = bytes;
    this.#owned = true;
  }

  /** The unread bytes, which the caller takes over. */
  take(): Buffer {
    const rest = this.bytes.subarray(this.pos, this.end);
    this.pos = this.end;
    this.start = this.end;
    return rest;
  }
}

const SMALLEST = 4096;
