/**
 * Reads lines and chunks from a socket, with back-pressure: nothing is read before a caller needs it.
 *
 * A server that sends nothing for `silenceMs` while a reader waits counts as lost. The timeout of the
 * socket cannot detect this, because the replica's own ACKs, one per second, count as activity there.
 */
import type { Socket } from "node:net";
import { ConnectionLostError } from "@ropeway/core";

const NEWLINE = 0x0a;
const LONGEST_LINE = 64 * 1024;
const EMPTY = Buffer.alloc(0);

/** The receiving half of a connection. */
export class ByteReader {
  readonly #socket: Socket;
  readonly #where: string;
  readonly #silenceMs: number;
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = EMPTY;

  constructor(socket: Socket, where: string, silenceMs: number) {
    this.#socket = socket;
    this.#where = where;
    this.#silenceMs = silenceMs;
    this.#chunks = socket[Symbol.asyncIterator]();
  }

  /** The next line without its end. Newlines before it, which Redis sends to keep the connection alive, are skipped. */
  async line(): Promise<string> {
    let line = EMPTY;
    for (;;) {
      if (this.#rest.length === 0) this.#rest = await this.#next();
      if (line.length === 0) this.#skipNewlines();
      const end = this.#rest.indexOf(NEWLINE);
      line = Buffer.concat([line, end < 0 ? this.#rest : this.#rest.subarray(0, end)]);
      this.#rest = end < 0 ? EMPTY : this.#rest.subarray(end + 1);
      if (end >= 0 && line.length > 0) return line.toString("latin1").replace(/\r$/, "");
      if (line.length > LONGEST_LINE) throw this.#lost(new Error("a line does not end"));
    }
  }

  /** Some bytes, at least one. Rejects with ConnectionLostError when the connection ends. */
  async some(): Promise<Buffer> {
    if (this.#rest.length === 0) return this.#next();
    const chunk = this.#rest;
    this.#rest = EMPTY;
    return chunk;
  }

  /** Gives bytes back, to be read next. */
  unread(bytes: Buffer): void {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([bytes, this.#rest]);
  }

  #skipNewlines(): void {
    let at = 0;
    while (this.#rest[at] === NEWLINE) at += 1;
    this.#rest = this.#rest.subarray(at);
  }

  async #next(): Promise<Buffer> {
    let next: IteratorResult<Buffer>;
    const silence = setTimeout(() => {
      this.#socket.destroy(new Error(`the source was silent for ${this.#silenceMs} ms`));
    }, this.#silenceMs);
    try {
      next = await this.#chunks.next();
    } catch (error) {
      throw this.#lost(error);
    } finally {
      clearTimeout(silence);
    }
    if (next.done === true) throw this.#lost(new Error("the server closed the connection"));
    return next.value;
  }

  #lost(cause: unknown): ConnectionLostError {
    return new ConnectionLostError(this.#where, cause);
  }
}
