/**
 * gRPC's framing of messages inside an HTTP/2 stream:
 *
 *   | 0 (not compressed) | length, 4 bytes big endian | message |
 */
import { StoreProtocolError } from "../../errors.ts";

const HEAD = 5;
/** Far above the size of any response that is used here. */
const MAX_MESSAGE = 64 * 1_048_576;

/** A message with its head. */
export function frame(message: Buffer): Buffer {
  const head = Buffer.alloc(HEAD);
  head.writeUInt32BE(message.length, 1);
  return Buffer.concat([head, message]);
}

/** Cuts the incoming bytes into messages. */
export class FrameReader {
  #parts: Buffer[] = [];
  #size = 0;
  #needed = HEAD;

  /** The messages that this chunk completes. */
  push(chunk: Buffer): Buffer[] {
    this.#parts.push(chunk);
    this.#size += chunk.length;
    if (this.#size < this.#needed) return [];
    let rest = Buffer.concat(this.#parts);
    const messages: Buffer[] = [];
    this.#needed = HEAD;
    while (rest.length >= HEAD) {
      const length = rest.readUInt32BE(1);
      if (rest[0] !== 0) throw new StoreProtocolError("a compressed message");
      if (length > MAX_MESSAGE) throw new StoreProtocolError(`a message of ${length} bytes`);
      this.#needed = HEAD + length;
      if (rest.length < this.#needed) break;
      messages.push(rest.subarray(HEAD, this.#needed));
      rest = rest.subarray(this.#needed);
      this.#needed = HEAD;
    }
    this.#parts = [rest];
    this.#size = rest.length;
    return messages;
  }
}
