/** The HTTP side of a node: GET /healthz, which portals call before they count it as down. */
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { ConnectFailedError } from "@ropeway/core";

/** The source of its response. */
export interface HealthSource {
  readonly id: string;
  readonly registered: boolean;
  readonly running: number;
}

/** Where to listen. */
export interface HealthServerOptions {
  readonly host: string;
  readonly port: number;
}

/** A health check that is being served. */
export class HealthServer implements AsyncDisposable {
  readonly #server: Server;
  #source: HealthSource | undefined;

  private constructor(server: Server) {
    this.#server = server;
  }

  /** Listens; responds with 503 until `serve` names the node. */
  static async listen({ host, port }: HealthServerOptions): Promise<HealthServer> {
    const server = createServer({ requestTimeout: 5_000, keepAliveTimeout: 1_000 });
    const health = new HealthServer(server);
    server.on("request", (request, response) => {
      const known = request.url === "/healthz" && request.method === "GET";
      const source = health.#source;
      const status = !known ? 404 : source === undefined ? 503 : 200;
      const body = source && {
        status: "ok",
        nodeId: source.id,
        registered: source.registered,
        tasks: source.running,
      };
      response.writeHead(status, { "content-type": "application/json", connection: "close" });
      response.end(JSON.stringify(known ? (body ?? { status: "starting" }) : {}));
    });
    await new Promise<void>((resolve, reject) => {
      server.once("error", (error) => reject(new ConnectFailedError(`${host}:${port}`, error)));
      server.listen(port, host, resolve);
    });
    return health;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  serve(source: HealthSource): void {
    this.#source = source;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
