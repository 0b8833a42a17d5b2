/**
 * A pipelined connection to one server of any version since 2.8. Core's `connect()` is for the libraries
 * and needs Redis 6.2. It also repeats commands and reconnects, which a checkpointed pipeline must decide
 * for itself. This connection does neither: after its first fault, everything under way is rejected with
 * ConnectionLostError.
 *
 * There are two ways to send: `call` sends one command, and `exchange` sends any number of encoded commands.
 * The hot path uses `exchange`; its replies are returned as one array.
 */
import type { Socket } from "node:net";
import {
  type Address,
  AuthFailedError,
  ConnectionLostError,
  type Endpoint,
  ServerReplyError,
} from "@ropeway/core";
import { showAddress } from "@ropeway/core/internal";
import { ErrorReply, type Reply, ReplyReader } from "../resp/reply-reader.ts";
import type { Argument } from "../resp/writer.ts";
import { encodeCommand } from "./encode.ts";
import { refuseOffLimits } from "./off-limits.ts";
import { openSocket } from "./socket.ts";

/** How to connect to a server and authenticate. */
export interface ConnectionPlan {
  readonly address: Address;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly tls?: Endpoint["tls"];
  readonly db?: number | undefined;
  /** The name in CLIENT LIST. */
  readonly name?: string;
  readonly connectTimeoutMs?: number;
  /** If no byte arrives for this long while replies are due, the connection is lost. */
  readonly replyTimeoutMs?: number;
  readonly signal?: AbortSignal | undefined;
  /** A server that has one of these keys is refused, see off-limits.ts. */
  readonly keepOff?: readonly string[] | undefined;
}

/** The replies due to one call of exchange(). */
interface Due {
  remaining: number;
  readonly replies: Reply[];
  resolve(replies: Reply[]): void;
  reject(error: unknown): void;
}

const CONNECT_TIMEOUT_MS = 5_000;
const REPLY_TIMEOUT_MS = 60_000;

/** One connection, from handshake to end. */
export class Connection implements AsyncDisposable {
  readonly where: string;
  readonly #socket: Socket;
  readonly #due: Due[] = [];
  readonly #replyTimeoutMs: number;
  #first = 0;
  #lost: ConnectionLostError | undefined;
  #timer: NodeJS.Timeout | undefined;

  private constructor(socket: Socket, plan: ConnectionPlan) {
    this.where = showAddress(plan.address);
    this.#socket = socket;
    this.#replyTimeoutMs = plan.replyTimeoutMs ?? REPLY_TIMEOUT_MS;
    const reader = new ReplyReader();
    socket.on("data", (chunk: Buffer) => {
      this.#timer?.refresh();
      try {
        reader.push(chunk);
        this.#receive(reader);
      } catch (error) {
        this.#die(error);
      }
    });
    socket.on("error", (error) => this.#die(error));
    socket.on("close", () => this.#die(new Error("the server closed the connection")));
  }

  /** Connects and authenticates. Rejects with ConnectFailedError or AuthFailedError. */
  static async open(plan: ConnectionPlan): Promise<Connection> {
    const { connectTimeoutMs = CONNECT_TIMEOUT_MS } = plan;
    const { address, tls, signal } = plan;
    const socket = await openSocket({ address, tls, connectTimeoutMs, signal });
    const connection = new Connection(socket, plan);
    try {
      await connection.#greet(plan);
    } catch (error) {
      connection.destroy();
      throw error;
    }
    return connection;
  }

  /** False once the connection is lost or closed. */
  get alive(): boolean {
    return this.#lost === undefined;
  }

  /** Sends one command. Rejects with ServerReplyError if the reply is an error. */
  async call<T extends Reply = Reply>(...args: readonly Argument[]): Promise<T> {
    const [reply] = await this.exchange(encodeCommand(args), 1);
    if (reply instanceof ErrorReply) {
      throw new ServerReplyError(String(args[0]).toUpperCase(), new Error(reply.message));
    }
    return reply as T;
  }

  /** Sends encoded commands. Resolves with as many replies, including error replies. */
  exchange(encoded: Buffer | readonly Buffer[], count: number): Promise<Reply[]> {
    if (this.#lost !== undefined) return Promise.reject(this.#lost);
    if (count === 0) return Promise.resolve([]); // no reply would ever come
    return new Promise((resolve, reject) => {
      this.#due.push({ remaining: count, replies: [], resolve, reject });
      this.#watch();
      this.#write(encoded);
    });
  }

  /** Closes without waiting for replies. */
  destroy(): void {
    this.#die(new Error("closed"));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.destroy();
  }

  #write(encoded: Buffer | readonly Buffer[]): void {
    if (Buffer.isBuffer(encoded)) {
      this.#socket.write(encoded);
      return;
    }
    this.#socket.cork();
    for (const piece of encoded) this.#socket.write(piece);
    this.#socket.uncork();
  }

  async #greet(plan: ConnectionPlan): Promise<void> {
    const { username, password, db, name, keepOff = [] } = plan;
    if (password !== undefined) {
      const credentials = username === undefined ? [password] : [username, password];
      const [reply] = await this.exchange(encodeCommand(["AUTH", ...credentials]), 1);
      // A server without a password refuses AUTH; the password is then not needed.
      if (
        reply instanceof ErrorReply &&
        !/no password is set|without any password/i.test(reply.message)
      ) {
        throw new AuthFailedError(this.where, new Error(reply.message));
      }
    }
    const [pong] = await this.exchange(encodeCommand(["PING"]), 1);
    if (pong instanceof ErrorReply && /^(NOAUTH|ERR operation not permitted)/.test(pong.message)) {
      throw new AuthFailedError(this.where, new Error(pong.message));
    }
    await refuseOffLimits(this.where, keepOff, {
      keyspace: async () =>
        lineOf((await this.exchange(encodeCommand(["INFO", "keyspace"]), 1))[0]),
      all: async (commands) => {
        const encoded = commands.map((command) => encodeCommand(command));
        return (await this.exchange(encoded, encoded.length)).map(lineOf);
      },
    });
    // An ACL may forbid CLIENT; the name is only informative.
    if (name !== undefined) await this.exchange(encodeCommand(["CLIENT", "SETNAME", name]), 1);
    if (db !== undefined && db !== 0) await this.call("SELECT", db);
  }

  /** Passes on the replies that have arrived. */
  #receive(reader: ReplyReader): void {
    for (;;) {
      const due = this.#due[this.#first];
      if (due === undefined) {
        if (reader.next() === undefined) return;
        throw new Error("the server sent a reply that nobody asked for");
      }
      due.remaining -= reader.read(due.replies, due.remaining);
      if (due.remaining > 0) return;
      this.#first += 1;
      if (this.#first === this.#due.length) {
        this.#due.length = 0;
        this.#first = 0;
        clearTimeout(this.#timer);
        this.#timer = undefined;
      }
      due.resolve(due.replies);
    }
  }

  /** One timer while replies are due; every byte that arrives resets it. */
  #watch(): void {
    this.#timer ??= setTimeout(
      () => this.#die(new Error(`no reply within ${this.#replyTimeoutMs} ms`)),
      this.#replyTimeoutMs,
    );
  }

  #die(cause: unknown): void {
    if (this.#lost !== undefined) return;
    this.#lost = new ConnectionLostError(this.where, cause);
    clearTimeout(this.#timer);
    this.#socket.destroy();
    for (const due of this.#due.splice(this.#first)) due.reject(this.#lost);
  }
}

/** A reply as text: an error begins with "-", a number with ":". */
function lineOf(reply: Reply | undefined): string {
  if (reply instanceof ErrorReply) return `-${reply.message}`;
  return typeof reply === "number" || typeof reply === "bigint" ? `:${reply}` : String(reply);
}
