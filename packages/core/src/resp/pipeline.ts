/**
 * Sends commands over one socket and gives each the reply that belongs to it: Redis replies in the order of the
 * commands.
 *
 *   send() --> encoder --(once per turn of the event loop)--> socket --> decoder --> the oldest waiting command
 *
 *   waiting:  [ written, reply expected ... | not written yet ... ]
 *               head                          unwritten
 *
 * When the socket is lost, a command that was written has an unknown outcome. One that was not written gets a
 * NotSentError, because the server cannot have run it.
 *
 * A subscribed pipeline also receives messages, which belong to no command.
 */
import type { Socket } from "node:net";
import { reasonOf } from "../errors.ts";
import type { Reply } from "../reply.ts";
import { deferred } from "../wait.ts";
import { CommandEncoder } from "./command-encoder.ts";
import { ProtocolError, type RawReply, ReplyDecoder, ReplyError } from "./reply-decoder.ts";

/** The command never left this process, so that sending it again is always safe. */
export class NotSentError extends Error {
  override readonly name = "NotSentError";
}

/** The socket was lost after the command had been written; `cause` is the reason. */
export class NoReplyError extends Error {
  override readonly name = "NoReplyError";
}

/** Receives the messages of a channel. */
export type ChannelListener = (message: Buffer, channel: Buffer) => void;

/** A command without a reply. */
class Waiting {
  readonly binary: boolean;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
  next: Waiting | undefined = undefined;

  constructor(binary: boolean, resolve: (reply: Reply) => void, reject: (error: Error) => void) {
    this.binary = binary;
    this.resolve = resolve;
    this.reject = reject;
  }
}

const MESSAGE = Buffer.from("message");

/** The commands of one socket. */
export class Pipeline {
  readonly #socket: Socket;
  readonly #encoder = new CommandEncoder();
  readonly #decoder: ReplyDecoder = new ReplyDecoder({
    isBinary: () => this.#listeners !== undefined || this.#head?.binary === true,
    receive: (reply) => this.#receive(reply),
  });
  readonly #flush = () => this.#write();
  readonly #death = deferred<unknown>();
  #head: Waiting | undefined;
  #tail: Waiting | undefined;
  #unwritten: Waiting | undefined;
  #listeners: Map<string, ChannelListener> | undefined;
  #open = true;
  #alive = true;
  #onDrained: (() => void) | undefined;

  /** Takes over a socket, which may still be connecting. */
  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk: Buffer) => this.#read(chunk));
    socket.on("error", (error) => this.destroy(error));
    const ended = () => this.destroy(new Error("the server closed the connection"));
    socket.on("end", ended).on("close", ended);
  }

  /** Resolves with the reason when the socket is lost or destroyed. */
  get died(): Promise<unknown> {
    return this.#death.promise;
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Whether it accepts commands: until drained() or the loss of the socket. */
  get open(): boolean {
    return this.#open;
  }

  /** How many bytes the server has sent. */
  get received(): number {
    return this.#socket.bytesRead;
  }

  /** Sends a command. All commands of one turn of the event loop leave in one write. */
  send(args: readonly (string | Buffer)[], binary: boolean): Promise<Reply> {
    return new Promise((resolve, reject) => {
      if (!this.#open) throw new NotSentError("the connection is closed");
      this.#encoder.add(args);
      this.#enqueue(new Waiting(binary, resolve, reject));
    });
  }

  /** Listens on a channel, which can have one listener. Ordinary commands are not possible after that. */
  async subscribe(channel: string, listener: ChannelListener): Promise<void> {
    this.#listeners ??= new Map();
    const earlier = this.#listeners.get(channel);
    this.#listeners.set(channel, listener);
    try {
      await this.send(["SUBSCRIBE", channel], true);
    } catch (error) {
      if (earlier === undefined) this.#listeners.delete(channel);
      else this.#listeners.set(channel, earlier);
      throw error;
    }
  }

  /** Leaves a channel. */
  async unsubscribe(channel: string): Promise<void> {
    this.#listeners?.delete(channel);
    await this.send(["UNSUBSCRIBE", channel], true);
  }

  /** Refuses new commands. Resolves when every earlier one has its reply or is lost. */
  drained(): Promise<void> {
    this.#open = false;
    return new Promise((resolve) => {
      if (this.#head === undefined) resolve();
      else this.#onDrained = resolve;
    });
  }

  /** Closes the socket at once and rejects every command without a reply. */
  destroy(reason: unknown): void {
    if (!this.#alive) return;
    this.#alive = false;
    this.#open = false;
    this.#socket.destroy();
    const unwritten = this.#unwritten;
    let waiting = this.#head;
    this.#head = undefined;
    this.#tail = undefined;
    this.#unwritten = undefined;
    const why = reasonOf(reason);
    let error: Error = new NoReplyError(why, { cause: reason });
    for (; waiting !== undefined; waiting = waiting.next) {
      if (waiting === unwritten) error = new NotSentError(why, { cause: reason });
      waiting.reject(error);
    }
    this.#onDrained?.();
    this.#death.resolve(reason);
  }

  #enqueue(waiting: Waiting): void {
    if (this.#tail === undefined) this.#head = waiting;
    else this.#tail.next = waiting;
    this.#tail = waiting;
    if (this.#unwritten !== undefined) return;
    this.#unwritten = waiting;
    setImmediate(this.#flush);
  }

  #write(): void {
    if (this.#unwritten === undefined) return; // destroyed meanwhile
    this.#unwritten = undefined;
    this.#encoder.writeTo(this.#socket);
  }

  #read(chunk: Buffer): void {
    try {
      this.#decoder.push(chunk);
    } catch (error) {
      if (!(error instanceof ProtocolError)) throw error;
      this.destroy(error);
    }
  }

  #receive(reply: RawReply): void {
    if (this.#listeners !== undefined && this.#deliver(reply)) return;
    const waiting = this.#head;
    if (waiting === undefined || waiting === this.#unwritten) {
      throw new ProtocolError(`an unexpected reply: ${describe(reply)}`);
    }
    const { next } = waiting;
    // Under load the chain never ends, and one old command would keep all later ones, with their replies, in memory.
    waiting.next = undefined;
    this.#head = next;
    if (next === undefined) {
      this.#tail = undefined;
      this.#onDrained?.();
    }
    if (reply instanceof ReplyError) waiting.reject(reply);
    else waiting.resolve(reply as Reply);
  }

  /** Passes a message to its listener. Returns whether the reply was a message. */
  #deliver(reply: RawReply): boolean {
    if (!Array.isArray(reply) || reply.length !== 3) return false;
    const [kind, channel, message] = reply as Buffer[];
    if (!Buffer.isBuffer(kind) || !kind.equals(MESSAGE)) return false;
    const listener = this.#listeners?.get(String(channel));
    try {
      listener?.(message as Buffer, channel as Buffer);
    } catch (error) {
      process.nextTick(() => {
        throw error; // outside of the decoder, which has more to read
      });
    }
    return true;
  }
}

function describe(reply: RawReply): string {
  return reply instanceof ReplyError ? reply.message : typeof reply;
}
