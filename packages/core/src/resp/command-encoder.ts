/**
 * Writes commands as RESP arrays of bulk strings and collects them until the next flush:
 *
 *   ["SET", "k", "é"]  -->  *3 $3 SET $1 k $2 é      (each part followed by CR LF)
 *
 * What is collected is a string in which each character is one byte (latin1). Node writes such a string to the
 * socket in one step, without a buffer in between. Longer bytes stay separate, because converting them would cost
 * more than another piece in the same write.
 */
import type { Writable } from "node:stream";

const CRLF = "\r\n";
/** Bytes up to this size become part of the string. */
const SHORT_BYTES = 4 * 1024;
/** The string is cut at this length, because V8 allocates longer ones outside of the young generation. */
const LONG_TEXT = 32 * 1024;

/** Commands that have not been written yet. */
export class CommandEncoder {
  #text = "";
  #pieces: (string | Buffer)[] = [];

  /**
   * Adds a command. Throws TypeError, and adds nothing, if an argument is neither a string nor a Buffer, or if there
   * is none: a server does not reply to an empty command, so each later reply would go to the wrong command.
   */
  add(args: readonly (string | Buffer)[]): void {
    if (!Array.isArray(args) || args.length === 0) {
      throw new TypeError("a command must be an array with at least one string or Buffer");
    }
    for (const arg of args) {
      if (typeof arg === "string" || Buffer.isBuffer(arg)) continue;
      throw new TypeError(`an argument of a command must be a string or a Buffer: ${typeof arg}`);
    }
    let text = `${this.#text}*${args.length}${CRLF}`;
    for (const arg of args) {
      const size = Buffer.byteLength(arg);
      // A string that is as long as its bytes is ASCII, which latin1 writes as it is.
      const piece = typeof arg === "string" && size !== arg.length ? Buffer.from(arg) : arg;
      text += `$${size}${CRLF}`;
      if (typeof piece === "string" && size <= LONG_TEXT) {
        text += piece + CRLF;
      } else if (size <= SHORT_BYTES) {
        text += piece.toString("latin1") + CRLF;
      } else {
        this.#pieces.push(text, piece);
        text = CRLF;
      }
      if (text.length > LONG_TEXT) {
        this.#pieces.push(text);
        text = "";
      }
    }
    this.#text = text;
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
      if (typeof piece === "string") socket.write(piece, "latin1");
      else socket.write(piece);
    }
    socket.uncork();
  }
}
