/** An HTTP receiver for tests: records every request and responds with `answer`. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface Received {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
  readonly raw: Buffer;
  readonly at: number;
}

export type Answering = (request: Received, response: ServerResponse) => void;

export class Receiver implements AsyncDisposable {
  readonly requests: Received[] = [];
  answer: Answering = (_, response) => response.end();
  readonly #server: Server;

  private constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on("data", (chunk: Buffer) => chunks.push(chunk));
      request.on("end", () => {
        const raw = Buffer.concat(chunks);
        const received: Received = {
          method: request.method ?? "",
          path: request.url ?? "",
          headers: request.headers,
          body: raw.toString("utf8"),
          raw,
          at: Date.now(),
        };
        this.requests.push(received);
        this.answer(received, response);
      });
    });
  }

  static async start(host = "127.0.0.1"): Promise<Receiver> {
    const receiver = new Receiver();
    await new Promise<void>((resolve) => receiver.#server.listen(0, host, resolve));
    return receiver;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  url(path = "/hook"): string {
    return `http://127.0.0.1:${this.port}${path}`;
  }

  bodies(): unknown[] {
    return this.requests.map(({ body }) => JSON.parse(body));
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
