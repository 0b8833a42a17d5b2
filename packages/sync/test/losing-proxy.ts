// A proxy that loses replies: what the client sent is applied, and then the connection is reset instead of the reply.
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/** The server behind the proxy. */
interface Behind {
  readonly host: string;
  readonly port: number;
}

export class LosingProxy implements AsyncDisposable {
  /** How many replies were lost. */
  lost = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Loses the first reply to bytes that `isLost` accepts; all of them with `always`. */
  static async start(
    { host, port }: Behind,
    isLost: (sent: Buffer) => boolean,
    always = false,
  ): Promise<LosingProxy> {
    const proxy = new LosingProxy(createServer());
    proxy.#server.on("connection", (client) => {
      const server = connect(port, host);
      proxy.#join(client, server);
      let sent: Buffer[] = [];
      client.on("data", (bytes) => {
        sent.push(bytes);
        server.write(bytes);
      });
      server.on("data", (bytes) => {
        const loses = (always || proxy.lost === 0) && isLost(Buffer.concat(sent));
        sent = [];
        if (!loses) {
          client.write(bytes);
          return;
        }
        proxy.lost += 1;
        client.destroy();
      });
    });
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`;
  }

  #join(...pair: readonly [Socket, Socket]): void {
    for (const socket of pair) {
      this.#sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => {
        for (const each of pair) {
          each.destroy();
          this.#sockets.delete(each);
        }
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }
}
