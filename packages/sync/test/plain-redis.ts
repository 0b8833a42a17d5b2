// A plain connection to a real server that keeps bytes as bytes.
import { createConnection, type Socket } from "node:net";
import type { RedisServer } from "@ropeway/testkit";
import { ErrorReply, type Reply, ReplyReader } from "../src/resp/reply-reader.ts";
import { type Argument, RespWriter } from "../src/resp/writer.ts";

export class PlainRedis implements AsyncDisposable {
  readonly #socket: Socket;
  readonly #reader = new ReplyReader();
  readonly #writer = new RespWriter();
  readonly #waiting: ((reply: Reply) => void)[] = [];

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on("data", (chunk) => {
      this.#reader.push(chunk);
      for (let reply = this.#reader.next(); reply !== undefined; reply = this.#reader.next()) {
        this.#waiting.shift()?.(reply);
      }
    });
  }

  static async open(server: RedisServer): Promise<PlainRedis> {
    const socket = createConnection({ host: server.host, port: server.port });
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    return new PlainRedis(socket);
  }

  /** The reply, errors as values. */
  reply(...argv: Argument[]): Promise<Reply> {
    this.#writer.command(argv);
    const promise = new Promise<Reply>((resolve) => this.#waiting.push(resolve));
    for (const bytes of this.#writer.take()) this.#socket.write(bytes);
    return promise;
  }

  /** The reply; an error reply is thrown. */
  async send(...argv: Argument[]): Promise<Reply> {
    const reply = await this.reply(...argv);
    if (reply instanceof ErrorReply) throw new Error(`${argv[0]}: ${reply.message}`);
    return reply;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#socket.once("close", resolve));
    this.#socket.destroy();
    await closed;
  }
}
