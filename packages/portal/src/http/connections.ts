/**
 * Which connections are answering something, so that a closing server can close the others. Node
 * does that only for connections that have had a request before: one that a browser opened in advance
 * would hold up the close for as long as it may take, and so would one that becomes idle later.
 */
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** The connections of one server. */
export class Connections {
  /** How many requests each connection is answering. */
  readonly #busy = new Map<Socket, number>();
  #closing = false;

  constructor(server: Server) {
    server.on("connection", (socket: Socket) => this.#opened(socket));
    server.on("request", (request: IncomingMessage, response: ServerResponse) => {
      const { socket } = request;
      this.#change(socket, +1);
      response.once("close", () => this.#change(socket, -1));
    });
  }

  /** Closes every idle connection now, and each other one when its response is sent. */
  close(): void {
    this.#closing = true;
    for (const [socket, requests] of this.#busy) if (requests === 0) socket.destroySoon();
  }

  /** Closes all connections, also those with requests under way. */
  cut(): void {
    for (const socket of this.#busy.keys()) socket.destroy();
  }

  #opened(socket: Socket): void {
    if (this.#closing) {
      socket.destroy();
      return;
    }
    this.#busy.set(socket, 0);
    socket.once("close", () => this.#busy.delete(socket));
  }

  #change(socket: Socket, by: number): void {
    const requests = this.#busy.get(socket);
    if (requests === undefined) return; // closed already
    this.#busy.set(socket, requests + by);
    if (this.#closing && requests + by === 0) socket.destroySoon();
  }
}
