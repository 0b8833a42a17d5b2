// The testkit's own connection to a server it started. The first command opens it, and the first one
// after a restart opens it again. The leak check recognises it by its name.
import { connect, type NetConnectOpts, type Socket } from "node:net";
import { type ConnectionOptions, connect as connectTls } from "node:tls";
import { ReplyError, TestkitError } from "./errors.ts";
import { type Argument, encodeCommand, type Reply, ReplyDecoder } from "./resp.ts";

/** The name of this connection in CLIENT LIST. */
export const CONTROL_NAME = "ropeway-testkit";

/** The address and credentials of a server. */
export interface Access {
  readonly host: string;
  readonly port: number;
  readonly socketPath?: string;
  readonly password?: string;
  /** The authority that signed the server's certificate, if it uses TLS. */
  readonly ca?: string;
}

interface Waiting {
  resolve(reply: Reply): void;
  reject(error: Error): void;
}

/** A connection that pipelines commands and returns their replies in order. */
export class ControlConnection {
  readonly #access: Access;
  readonly #timeoutMs: number;
  #socket: Socket | undefined;
  #waiting: Waiting[] = [];

  constructor(access: Access, timeoutMs = 10_000) {
    this.#access = access;
    this.#timeoutMs = timeoutMs;
  }

  /** Sends a command; an error reply rejects as `ReplyError`. */
  async command(...args: Argument[]): Promise<Reply> {
    if (this.#socket === undefined) {
      const greeting = this.#open();
      const answer = this.#send(args);
      await Promise.all([...greeting, answer]);
      return answer;
    }
    return this.#send(args);
  }

  close(): void {
    this.#lose(new TestkitError("NOT_RUNNING", "the control connection was closed"));
  }

  // The greeting is pipelined with the first command to save a round trip.
  #open(): Promise<Reply>[] {
    const { password } = this.#access;
    const socket = this.#dial();
    this.#socket = socket;
    this.#waiting = [];
    const decoder = new ReplyDecoder();
    socket.on("data", (bytes: Buffer) => {
      if (this.#socket === socket) for (const reply of decoder.push(bytes)) this.#settle(reply);
    });
    socket.on("error", (error) => this.#socket === socket && this.#lose(error));
    socket.on("close", () => this.#socket === socket && this.#lose(this.#gone()));
    const name = ["CLIENT", "SETNAME", CONTROL_NAME];
    const greeting = password === undefined ? [name] : [["AUTH", password], name];
    return greeting.map((command) => this.#send(command));
  }

  #dial(): Socket {
    const { host, port, socketPath, ca } = this.#access;
    const where: NetConnectOpts = socketPath ? { path: socketPath } : { host, port };
    if (ca === undefined) return connect({ ...where, noDelay: true });
    return connectTls({ ...(where as ConnectionOptions), ca });
  }

  #send(args: readonly Argument[]): Promise<Reply> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#lose(new TestkitError("GAVE_UP", `${args[0]} timed out after ${this.#timeoutMs} ms`));
      }, this.#timeoutMs);
      this.#waiting.push({
        resolve: (reply) => {
          clearTimeout(timer);
          if (reply instanceof ReplyError) reject(reply);
          else resolve(reply);
        },
        reject: (error) => {
          clearTimeout(timer);
          reject(error);
        },
      });
      this.#socket?.write(encodeCommand(args));
    });
  }

  #settle(reply: Reply): void {
    this.#waiting.shift()?.resolve(reply);
  }

  #lose(error: Error): void {
    this.#socket?.destroy();
    this.#socket = undefined;
    for (const waiting of this.#waiting.splice(0)) waiting.reject(error);
  }

  #gone(): TestkitError {
    const { host, port, socketPath } = this.#access;
    return new TestkitError(
      "NOT_RUNNING",
      `${socketPath ?? `${host}:${port}`} closed the connection`,
    );
  }
}
