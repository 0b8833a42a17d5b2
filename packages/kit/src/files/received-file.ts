/** The argument of a handler. Iterate over its chunks. */
export interface ReceivedFile extends AsyncIterable<Buffer> {
  readonly name: string;
  /** Undefined if the sender did not know it. */
  readonly size: number | undefined;
  /** Bytes that this receiver had before a crash; the first chunk begins here. */
  readonly offset: number;
  /** Of the whole file, in hex; known after the last chunk, and not on the documented wire. */
  readonly sha256: string | undefined;
}
