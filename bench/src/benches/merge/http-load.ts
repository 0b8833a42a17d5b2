/**
 * HTTP load with a minimal cost for the client. It builds each request once, writes it to keep-alive
 * sockets, and reads only the status line and the length of each response.
 */
import { connect, type Socket } from "node:net";

/** A connection with one request in flight at a time. */
class Lane {
  readonly #socket: Socket;
  #pending: ((status: number) => void) | undefined;
  #fail: ((error: Error) => void) | undefined;
  #received = "";

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.setEncoding("latin1");
    socket.on("data", (text: string) => this.#data(text));
    socket.on("error", (error) => this.#fail?.(error));
    socket.on("close", () => this.#fail?.(new Error("the server closed the connection")));
  }

  request(bytes: Buffer): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#pending = resolve;
      this.#fail = reject;
      if (this.#socket.destroyed) reject(new Error("the server closed the connection"));
      else this.#socket.write(bytes);
    });
  }

  close(): void {
    this.#socket.destroy();
  }

  #data(text: string): void {
    this.#received += text;
    const head = this.#received.indexOf("\r\n\r\n");
    if (head < 0) return;
    const length = /content-length: (\d+)/i.exec(this.#received)?.[1] ?? "0";
    if (this.#received.length < head + 4 + Number(length)) return;
    const status = Number(this.#received.slice(9, 12));
    this.#received = "";
    this.#pending?.(status);
  }
}

/** Several connections to one server. */
export class HttpLoad {
  readonly #lanes: Lane[];
  readonly #free: Lane[];

  private constructor(lanes: Lane[]) {
    this.#lanes = lanes;
    this.#free = [...lanes];
  }

  static async open(port: number, lanes: number): Promise<HttpLoad> {
    const opened = Array.from({ length: lanes }, async () => {
      const socket = connect({ host: "127.0.0.1", port });
      await new Promise<void>((resolve, reject) => {
        socket.once("connect", resolve);
        socket.once("error", reject);
      });
      return new Lane(socket);
    });
    return new HttpLoad(await Promise.all(opened));
  }

  /** Sends a request on a free lane. Throws if no lane is free. */
  async send(bytes: Buffer): Promise<number> {
    const lane = this.#free.pop();
    if (lane === undefined) throw new Error("more requests in flight than lanes");
    try {
      return await lane.request(bytes);
    } finally {
      this.#free.push(lane);
    }
  }

  close(): void {
    for (const lane of this.#lanes) lane.close();
  }
}

/** A POST as bytes. */
export function postBytes(path: string, body: string): Buffer {
  const head = [
    `POST ${path} HTTP/1.1`,
    "host: 127.0.0.1",
    "content-type: application/json",
    `content-length: ${Buffer.byteLength(body)}`,
  ];
  return Buffer.from(`${head.join("\r\n")}\r\n\r\n${body}`);
}
