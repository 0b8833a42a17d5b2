/**
 * How commands leave a socket: options for net.connect() that the client library passes on.
 *
 * The library hands the socket one string per command and stops at its high-water mark, 16 KiB, until
 * that has drained. A tick with 1000 commands then costs a dozen system calls and 1000 entries for the
 * kernel. Two things help (a fifth to a half less CPU, see docs/benchmarks.md): a mark that a whole tick
 * fits below, and joining the small strings of a tick. Large strings and Buffers stay as they are,
 * since joining would only copy them.
 *
 *   small small small BUFFER small LARGE    ->    [small+small+small] [BUFFER] [small] [LARGE]
 *
 * Order and bytes are the same: strings begin and end with ASCII, so joining makes no new character.
 * TLS sockets ignore these options: they encrypt piece by piece.
 */
import { Socket } from "node:net";

/** A piece of a corked write, as stream.Writable hands them over. */
export interface Piece {
  readonly chunk: string | Buffer;
  readonly encoding: BufferEncoding;
}

export type Done = (error?: Error | null) => void;

/** From this length on, copying a string costs more than an entry of its own. */
const LARGE = 1024;
/** No longer than this: huge strings are dear to allocate. */
const JOINED_MAX = 16 * 1024;

/** What the stream behind a socket is told. */
export interface OutgoingOptions {
  readonly writableHighWaterMark: number;
  readonly writev: (this: Socket, pieces: Piece[], done: Done) => void;
}

/** Options of the sockets that carry commands. */
export const OUTGOING: OutgoingOptions = {
  writableHighWaterMark: 1024 * 1024,
  writev: writeJoined,
};

function writeJoined(this: Socket, pieces: Piece[], done: Done): void {
  const joined = joinPieces(pieces);
  const [first] = joined;
  if (first !== undefined && joined.length === 1) {
    Socket.prototype._write.call(this, first.chunk, first.encoding, done);
  } else {
    writeMany.call(this, joined, done);
  }
}

const writeMany = Socket.prototype._writev as (this: Socket, pieces: Piece[], done: Done) => void;

/** The same bytes in fewer pieces. */
export function joinPieces(pieces: readonly Piece[]): Piece[] {
  const joined: Piece[] = [];
  let text = "";
  for (const piece of pieces) {
    const { chunk, encoding } = piece;
    const small = typeof chunk === "string" && chunk.length < LARGE && encoding === "utf8";
    if (text !== "" && (!small || text.length + chunk.length > JOINED_MAX)) {
      joined.push({ chunk: text, encoding: "utf8" });
      text = "";
    }
    if (small) text += chunk;
    else joined.push(piece);
  }
  if (text !== "") joined.push({ chunk: text, encoding: "utf8" });
  return joined;
}
