/** Turns errors of Fastify and Node into ours: their codes never reach a caller. */

import { RopewayError } from "@ropeway/core";
import type { FastifyRequest } from "fastify";
import { BodyTooLargeError, InvalidJsonError, UnsupportedMediaTypeError } from "../errors.ts";

/** The error as one of ours; the same error if Fastify has nothing to do with it. */
export function translate(error: unknown, request: FastifyRequest): unknown {
  if (error instanceof RopewayError || !(error instanceof Error)) return error;
  const { code, statusCode } = error as { code?: string; statusCode?: number };
  if (code === "FST_ERR_CTP_BODY_TOO_LARGE") {
    return new BodyTooLargeError(request.routeOptions.bodyLimit ?? 0);
  }
  if (code === "FST_ERR_CTP_INVALID_MEDIA_TYPE" || code === "FST_ERR_CTP_INVALID_TYPE") {
    return new UnsupportedMediaTypeError(request.headers["content-type"]);
  }
  if (code === "FST_ERR_CTP_EMPTY_JSON_BODY" || code === "FST_ERR_CTP_INVALID_JSON_BODY") {
    return new InvalidJsonError(error);
  }
  // secure-json-parse throws a SyntaxError of its own for __proto__ and constructor.prototype.
  if (error instanceof SyntaxError && statusCode === 400) return new InvalidJsonError(error);
  if (code?.startsWith("FST_") && statusCode !== undefined && statusCode < 500) {
    return new RopewayError("BAD_REQUEST", error.message, { cause: error });
  }
  return error;
}
