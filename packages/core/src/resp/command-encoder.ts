/**
 * Writes commands as RESP arrays of bulk strings and collects them until the next flush:
 *
 *   ["SET", "k", "é"]  -->  *3 $3 SET $1 k $2 é      (each part followed by CR LF)
 *
 * What is collected is one string in which each character is one byte (latin1). Node writes such a string to the
 * socket in one step, without a buffer in between. Longer bytes stay separate, because converting them would cost
 * more than another piece in the same write.
 */
import type { Writable } from "node:stream";

const CRLF = "\r\n";
/** Bytes up to this size become part of the string. */
const SHORT_BYTES = 4 * 1024;
/** The string is cut at this length, far below the maximum of V8. */
const LONG_TEXT = 1 << 20;

/** Commands that have not been written yet. */
export class CommandEncoder {
  #text = "";
  #pieces: (string | Buffer)[] = [];

  /** Adds a command. Throws TypeError, and adds nothing, if an argument is neither a string nor a Buffer. */
  add(args: readonly (string | Buffer)[]): void {
    let text = `*${args.length}${CRLF}`;
    let pieces: (string | Buffer)[] | undefined;
    for (const arg of args) {
      if (typeof arg === "string") {
        const size = Buffer.byteLength(arg);
        if (size === arg.length) {
          text += `$${size}${CRLF}${arg}${CRLF}`; // only ASCII
          continue;
        }
      } else if (!Buffer.isBuffer(arg)) {
        throw new TypeError(`an argument of a command must be a string or a Buffer: ${typeof arg}`);
      }
      const bytes = typeof arg === "string" ? Buffer.from(arg) : arg;
      text += `$${bytes.length}${CRLF}`;
      if (bytes.length <= SHORT_BYTES) {
        text += bytes.toString("latin1") + CRLF;
      } else {
        pieces ??= [];
        pieces.push(text, bytes);
        text = CRLF;
      }
    }
    if (pieces !== undefined) {
      this.#cut();
      for (const piece of pieces) this.#pieces.push(piece);
      this.#text = text;
    } else {
      this.#text += text;
      if (this.#text.length > LONG_TEXT) this.#cut();
    }
  }

  /** Writes everything since the last call. */
  writeTo(socket: Writable): void {
    const text = this.#text;
    this.#text = "";
    if (this.#pieces.length === 0) {
      if (text !== "") socket.write(text, "latin1");
      return;
    }
    const pieces = this.#pieces;
    this.#pieces = [];
    pieces.push(text);
    socket.cork();
    for (const piece of pieces) {
      if (typeof piece !== "string") socket.write(piece);
      else if (piece !== "") socket.write(piece, "latin1");
    }
    socket.uncork();
  }

  #cut(): void {
    this.#pieces.push(this.#text);
    this.#text = "";
  }
}
