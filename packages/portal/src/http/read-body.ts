/** Reads the body of a request that Fastify does not serve. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { BodyTooLargeError } from "../errors.ts";

/** A request whose body is expected. */
export interface BodyPlan {
  readonly response: ServerResponse;
  readonly maxBytes: number;
}

/**
 * The body, as bytes. Throws BodyTooLargeError as soon as it is known to be longer than `maxBytes`. If the client
 * goes away first, nothing is ever returned. A client that waits for "100 Continue" gets it here.
 */
export function readBody(
  request: IncomingMessage,
  { response, maxBytes }: BodyPlan,
): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const { headers } = request;
    if (Number(headers["content-length"] ?? 0) > maxBytes) {
      reject(new BodyTooLargeError(maxBytes));
      return;
    }
    if (headers.expect?.toLowerCase() === "100-continue") response.writeContinue();
    const chunks: Buffer[] = [];
    let bytes = 0;
    request.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= maxBytes) chunks.push(chunk);
      else reject(new BodyTooLargeError(maxBytes));
    });
    request.on("end", () =>
      resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)),
    );
  });
}
