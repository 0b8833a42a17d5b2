/**
 * One connection to a source, as its replica. It lasts until the first fault; PsyncFeed opens the next.
 *
 *   handshake --+CONTINUE------------------------------.
 *       |                                              v
 *       '--+FULLRESYNC--> snapshot() ---> ACK 0 ---> stream()
 *
 * The snapshot arrives in one of two ways. "$<bytes>" gives its length. "$EOF:<mark>" is followed by the
 * RDB and then the 40 bytes of the mark. After it the server sends nothing until the first ACK. So the
 * snapshot ends where the received bytes end with the mark, directly after the EOF opcode and checksum of an
 * RDB. The mark is not unique or secret, and must not be searched for anywhere else.
 */
import type { Socket } from "node:net";
import { type Address, ConnectionLostError, type Endpoint } from "@ropeway/core";
import { showAddress } from "@ropeway/core/internal";
import { PsyncRefusedError } from "../errors.ts";
import { encodeCommand } from "../wire/encode.ts";
import { openSocket } from "../wire/socket.ts";
import { ByteReader } from "./byte-reader.ts";
import { type HandshakePlan, handshake, type PsyncReply } from "./handshake.ts";

/** Which server to follow and from where. */
export interface ReplicaPlan extends Omit<HandshakePlan, "where"> {
  readonly address: Address;
  readonly tls?: Endpoint["tls"];
  readonly connectTimeoutMs: number;
  /** A source that sends nothing for this long is treated as lost; it pings every 10 s by default. */
  readonly silenceMs: number;
  readonly signal?: AbortSignal | undefined;
}

const MARK_BYTES = 40;
/** EOF opcode, CRC64, mark. */
const TRAILER_BYTES = 1 + 8 + MARK_BYTES;
const EOF_OPCODE = 0xff;
const NEWLINE = Buffer.from("\n");

/** A replica's connection after its handshake. */
export class ReplicaLink {
  readonly where: string;
  readonly reply: PsyncReply;
  readonly #socket: Socket;
  readonly #reader: ByteReader;
  #snapshotBytes: number | undefined;

  private constructor(parts: {
    socket: Socket;
    reader: ByteReader;
    where: string;
    reply: PsyncReply;
  }) {
    this.#socket = parts.socket;
    this.#reader = parts.reader;
    this.where = parts.where;
    this.reply = parts.reply;
  }

  static async open(plan: ReplicaPlan): Promise<ReplicaLink> {
    const where = showAddress(plan.address);
    const socket = await openSocket({ ...plan, tls: plan.tls });
    socket.on("error", () => {}); // the reader throws it
    const onAbort = () => socket.destroy(new Error("closed"));
    plan.signal?.addEventListener("abort", onAbort, { once: true });
    if (plan.signal?.aborted) onAbort(); // the signal aborted while the socket was opened
    socket.once("close", () => plan.signal?.removeEventListener("abort", onAbort));
    try {
      const reader = new ByteReader(socket, where, plan.silenceMs);
      const reply = await handshake(socket, reader, { ...plan, where });
      return new ReplicaLink({ socket, reader, where, reply });
    } catch (error) {
      socket.destroy();
      throw error;
    }
  }

  /** The size of the snapshot, if the server announced it. */
  get snapshotBytes(): number | undefined {
    return this.#snapshotBytes;
  }

  /** The bytes of the RDB. Call it once, after FULLRESYNC. */
  async *snapshot(): AsyncGenerator<Buffer, void> {
    const header = await this.#reader.line();
    if (header.startsWith("-")) throw new PsyncRefusedError(this.where, header.slice(1));
    const mark = /^\$EOF:(.{40})$/.exec(header)?.[1];
    const length = /^\$(\d+)$/.exec(header)?.[1];
    if (mark !== undefined) yield* this.#untilMark(Buffer.from(mark, "latin1"));
    else if (length !== undefined) yield* this.#exactly(Number(length));
    else throw new ConnectionLostError(this.where, new Error(`no snapshot, but ${header}`));
    this.acknowledge(0); // the server begins the command stream only now
  }

  /** The bytes of the command stream, stray newlines included, until the connection is lost. */
  async *stream(): AsyncGenerator<Buffer, void> {
    for (;;) yield await this.#reader.some();
  }

  /** Acknowledges the offset that the target has to the source. */
  acknowledge(offset: number): void {
    if (this.#socket.writable) {
      this.#socket.write(encodeCommand(["REPLCONF", "ACK", String(offset)]));
    }
  }

  /** Keeps the connection alive while the replica receives its snapshot. */
  keepAlive(): void {
    if (this.#socket.writable) this.#socket.write(NEWLINE);
  }

  close(): void {
    this.#socket.destroy();
  }

  async *#exactly(length: number): AsyncGenerator<Buffer, void> {
    this.#snapshotBytes = length;
    let left = length;
    while (left > 0) {
      const chunk = await this.#reader.some();
      if (chunk.length > left) this.#reader.unread(chunk.subarray(left));
      yield chunk.subarray(0, left);
      left -= Math.min(chunk.length, left);
    }
  }

  async *#untilMark(mark: Buffer): AsyncGenerator<Buffer, void> {
    let held = Buffer.alloc(0);
    for (;;) {
      const chunk = await this.#reader.some();
      const bytes = chunk.length < TRAILER_BYTES ? Buffer.concat([held, chunk]) : chunk;
      if (bytes === chunk && held.length > 0) yield held;
      const end = bytes.length - MARK_BYTES;
      if (bytes[bytes.length - TRAILER_BYTES] === EOF_OPCODE && mark.equals(bytes.subarray(end))) {
        yield bytes.subarray(0, end);
        return;
      }
      const keep = Math.max(0, bytes.length - TRAILER_BYTES + 1);
      if (keep > 0) yield bytes.subarray(0, keep);
      held = Buffer.from(bytes.subarray(keep)); // a copy, so that the chunk can be freed
    }
  }
}
