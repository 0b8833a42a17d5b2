/**
 * Closes the responses of pipelined requests when their connection closes. A client may send several requests
 * before it reads a response. Node then serves all of them, but gives the connection to the first response only,
 * and emits "close" for that one alone. Everything that is released at the end of a response (room for its body,
 * an event stream, a remote call) would otherwise be held for ever.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** The responses of one server that wait for their connection. */
export class QueuedResponses {
  readonly #waiting = new WeakMap<Socket, Set<ServerResponse>>();

  /** To be called for each request before it is served. */
  note({ socket }: IncomingMessage, response: ServerResponse): void {
    if (response.socket !== null) return; // it is the first, and Node closes it
    const waiting = this.#waiting.get(socket) ?? this.#watch(socket);
    waiting.add(response);
    response.once("close", () => waiting.delete(response));
  }

  #watch(socket: Socket): Set<ServerResponse> {
    const waiting = new Set<ServerResponse>();
    this.#waiting.set(socket, waiting);
    // Before Node's own listener, so a response that has the connection by now is still known by it.
    socket.prependOnceListener("close", () => {
      for (const response of waiting) if (response.socket === null) close(response);
    });
    return waiting;
  }
}

/** As Node does for the response that has the connection. */
function close(response: ServerResponse): void {
  response.destroy();
  response.emit("close");
}
