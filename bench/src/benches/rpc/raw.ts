/**
 * The ceiling: hand-written request and reply over two Redis lists, with one socket each. One LPUSH sends
 * all messages of a tick, and one BLMPOP fetches up to 256 messages. A call costs one JSON message, one
 * Map entry and one promise.
 */
import { connect, type Socket } from "node:net";

const CRLF = "\r\n";

function encode(args: readonly string[]): string {
  let text = `*${args.length}${CRLF}`;
  for (const arg of args) text += `$${Buffer.byteLength(arg)}${CRLF}${arg}${CRLF}`;
  return text;
}

/** One socket with a minimal parser for numbers, null and the reply of BLMPOP. */
export class RawConnection {
  readonly #socket: Socket;
  readonly #onReply: (elements: readonly string[] | null) => void;
  #rest: Buffer = Buffer.alloc(0);

  constructor(
    address: { readonly host: string; readonly port: number },
    onReply: (elements: readonly string[] | null) => void,
  ) {
    this.#onReply = onReply;
    this.#socket = connect({ ...address, noDelay: true });
    this.#socket.on("data", (bytes) => this.#read(bytes));
  }

  send(args: readonly string[]): void {
    this.#socket.write(encode(args));
  }

  close(): void {
    this.#socket.destroy();
  }

  #read(bytes: Buffer): void {
    let data = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    for (;;) {
      const used = this.#readOne(data);
      if (used === 0) break;
      data = data.subarray(used);
      if (data.length === 0) break;
    }
    this.#rest = data;
  }

  /** The length of the first reply in bytes, or 0 if it is incomplete. */
  #readOne(data: Buffer): number {
    const end = data.indexOf("\n");
    if (end < 0) return 0;
    if (data[0] !== 42) {
      this.#onReply(null);
      return end + 1;
    }
    if (data[1] === 45) {
      this.#onReply(null);
      return end + 1;
    }
    const cursor = { at: end + 1 };
    if (readBulk(data, cursor) === undefined) return 0; // the list's name
    const countEnd = data.indexOf("\n", cursor.at);
    if (countEnd < 0) return 0;
    const count = Number(data.toString("latin1", cursor.at + 1, countEnd - 1));
    cursor.at = countEnd + 1;
    const elements: string[] = [];
    for (let i = 0; i < count; i++) {
      const element = readBulk(data, cursor);
      if (element === undefined) return 0;
      elements.push(element);
    }
    this.#onReply(elements);
    return cursor.at;
  }
}

function readBulk(data: Buffer, cursor: { at: number }): string | undefined {
  const end = data.indexOf("\n", cursor.at);
  if (end < 0) return undefined;
  const length = Number(data.toString("latin1", cursor.at + 1, end - 1));
  const from = end + 1;
  if (data.length < from + length + 2) return undefined;
  cursor.at = from + length + 2;
  return data.toString("utf8", from, from + length);
}

/** Pops a list until closed and passes the elements to `onElements`. */
export function popForEver(
  address: { readonly host: string; readonly port: number },
  list: string,
  onElements: (elements: readonly string[]) => void,
): RawConnection {
  const pop = ["BLMPOP", "0", "1", list, "RIGHT", "COUNT", "256"];
  const connection: RawConnection = new RawConnection(address, (elements) => {
    connection.send(pop);
    if (elements !== null) onElements(elements);
  });
  connection.send(pop);
  return connection;
}

/** Pushes to a list. Sends all pushes of one tick together. */
export class RawPusher {
  readonly #connection: RawConnection;
  readonly #list: string;
  #batch: string[] = [];

  constructor(address: { readonly host: string; readonly port: number }, list: string) {
    this.#connection = new RawConnection(address, () => {});
    this.#list = list;
  }

  push(text: string): void {
    if (this.#batch.length === 0) setImmediate(() => this.#flush());
    this.#batch.push(text);
  }

  close(): void {
    this.#connection.close();
  }

  #flush(): void {
    const batch = this.#batch;
    this.#batch = [];
    this.#connection.send(["LPUSH", this.#list, ...batch]);
  }
}
