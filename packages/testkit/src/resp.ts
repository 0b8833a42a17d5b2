// Encodes RESP2 commands and decodes replies. Tests of our client library, and of old servers, need
// an independent implementation, so this one is not taken from a client library.
//
//   *2\r\n $3\r\nGET\r\n $1\r\nk\r\n      ->      +OK | -ERR text | :42 | $5\r\nhello | $-1 | *2 ...
import { ReplyError } from "./errors.ts";

/** One argument of a command. */
export type Argument = string | number | Buffer;

/** A reply of Redis. An error inside an array is kept as a value. */
export type Reply = string | number | null | ReplyError | Reply[];

/** A command as bytes. */
export function encodeCommand(args: readonly Argument[]): Buffer {
  const parts: Buffer[] = [Buffer.from(`*${args.length}\r\n`)];
  for (const arg of args) {
    const bytes = Buffer.isBuffer(arg) ? arg : Buffer.from(String(arg));
    parts.push(Buffer.from(`$${bytes.length}\r\n`), bytes, Buffer.from("\r\n"));
  }
  return Buffer.concat(parts);
}

/** Decodes replies from chunks of any size. */
export class ReplyDecoder {
  #buffer: Buffer = Buffer.alloc(0);
  #at = 0;

  /** The complete replies. The other bytes are kept for the next call. */
  push(bytes: Buffer): Reply[] {
    this.#buffer = Buffer.concat([this.#buffer, bytes]);
    const replies: Reply[] = [];
    for (;;) {
      this.#at = 0;
      const reply = this.#read();
      if (reply === undefined) return replies;
      this.#buffer = this.#buffer.subarray(this.#at);
      replies.push(reply);
    }
  }

  // `undefined` means incomplete. The next call starts again at the first byte of the reply.
  #read(): Reply | undefined {
    const end = this.#buffer.indexOf("\r\n", this.#at);
    if (end < 0) return undefined;
    const line = this.#buffer.toString("utf8", this.#at + 1, end);
    const kind = String.fromCharCode(this.#buffer[this.#at] ?? 0);
    this.#at = end + 2;
    switch (kind) {
      case "+":
        return line;
      case "-":
        return new ReplyError(line);
      case ":":
        return Number(line);
      case "$":
        return this.#readBulk(Number(line));
      case "*":
        return this.#readArray(Number(line));
      default:
        throw new TypeError(`not RESP2: ${JSON.stringify(kind + line)}`);
    }
  }

  #readBulk(length: number): string | null | undefined {
    if (length < 0) return null;
    const start = this.#at;
    if (this.#buffer.length < start + length + 2) return undefined;
    this.#at = start + length + 2;
    return this.#buffer.toString("utf8", start, start + length);
  }

  #readArray(length: number): Reply[] | null | undefined {
    if (length < 0) return null;
    const items: Reply[] = [];
    while (items.length < length) {
      const item = this.#read();
      if (item === undefined) return undefined;
      items.push(item);
    }
    return items;
  }
}
