/** Reads the body of a request that Fastify does not serve. */
import type { IncomingMessage } from "node:http";
import { BodyTooLargeError } from "../errors.ts";

/**
 * The body, as bytes. Throws BodyTooLargeError as soon as it is known to be longer than `maxBytes`. If the client
 * goes away first, nothing is ever returned.
 */
export function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    if (Number(request.headers["content-length"] ?? 0) > maxBytes) {
      reject(new BodyTooLargeError(maxBytes));
      return;
    }
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
