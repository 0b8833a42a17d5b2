/**
 * Lets Fastify log through our Logger, which has four methods. What
 * a part writes with `request.log` then carries the request's id.
 */
import type { Logger } from "@ropeway/core";
import type { FastifyBaseLogger } from "fastify";

type LogMethod = (first: unknown, message?: string) => void;

/** Our Logger in the shape that Fastify wants; `bound` goes into every line. */
export function fastifyLogger(logger: Logger, bound: object = {}): FastifyBaseLogger {
  const through =
    (level: keyof Logger): LogMethod =>
    (first, message) => {
      if (typeof first === "string") logger[level](bound, first);
      else logger[level]({ ...bound, ...(first as object) }, message ?? "");
    };
  return {
    level: "debug",
    trace: () => {},
    silent: () => {},
    debug: through("debug"),
    info: through("info"),
    warn: through("warn"),
    error: through("error"),
    fatal: through("error"),
    child: (bindings: object) => fastifyLogger(logger, { ...bound, ...bindings }),
  } as FastifyBaseLogger;
}
