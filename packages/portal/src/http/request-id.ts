/**
 * Each request has an id: the one that the client sent, if it is safe in a log line, else a new one. It
 * is in the response's headers, in every problem and in every log line of the request.
 */
import type { IncomingMessage } from "node:http";
import { IdSource } from "@ropeway/core/internal";

/** The header's name, in both directions. */
export const REQUEST_ID = "x-request-id";

const SANE = /^[\w.:/+=@-]{1,128}$/;

/** Names requests; one per portal. */
export function requestIds(): (request: IncomingMessage) => string {
  const source = new IdSource();
  return (request) => {
    const given = request.headers[REQUEST_ID];
    return typeof given === "string" && SANE.test(given) ? given : source.next();
  };
}
