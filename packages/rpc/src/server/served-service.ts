/** A service as a worker holds it: methods with their handlers, lists with what they mean. */

import {
  type AnyHandlers,
  describeMethod,
  type MethodDefinition,
  type Service,
} from "../service/service.ts";
import { Histogram } from "../telemetry/histogram.ts";
import type { CallContext } from "./call-context.ts";
import type { DurableFetcher } from "./durable-fetcher.ts";

/** Runs around every handler; `next()` runs what is behind it. */
export type Middleware = (context: CallContext, next: () => Promise<unknown>) => Promise<unknown>;

/** A method with its handler. */
export interface ServedMethod extends MethodDefinition {
  readonly name: string;
  readonly args: readonly string[];
  readonly stats: Histogram;
  readonly attributes: {
    readonly ok: Record<string, string>;
    readonly failed: Record<string, string>;
  };
  handler(input: unknown, context: CallContext): unknown;
}

/** A service with its handlers. */
export interface ServedService {
  readonly name: string;
  readonly methods: ReadonlyMap<string, ServedMethod>;
  /** What the registry shows: method -> JSON. */
  readonly descriptions: readonly string[];
}

/** Where a text was popped from. */
export interface Source {
  readonly list: string;
  readonly service: ServedService;
  /** In the kw wire the list, not the message, says which function. */
  readonly method: string | undefined;
  /** The session group, if it is a session list. */
  readonly group: string | undefined;
  /** Who keeps the call until it is answered, if it must not be lost. */
  durable: DurableFetcher | undefined;
}

/** Joins a description, or only a name, with its handlers. */
export function serveService(service: Service | string, handlers: AnyHandlers): ServedService {
  const { name, methods } =
    typeof service === "string" ? { name: service, methods: describedBy(handlers) } : service;
  const served = new Map<string, ServedMethod>();
  const descriptions: string[] = [];
  for (const [method, definition] of Object.entries(methods)) {
    const handler = handlers[method];
    if (typeof handler !== "function") {
      throw new TypeError(`service ${name} has no handler for its method ${method}`);
    }
    const description = describeMethod(definition);
    descriptions.push(method, JSON.stringify(description));
    served.set(method, {
      ...definition,
      name: method,
      args: description.args,
      handler,
      stats: new Histogram(),
      attributes: {
        ok: { service: name, method, outcome: "ok" },
        failed: { service: name, method, outcome: "error" },
      },
    });
  }
  return { name, methods: served, descriptions };
}

function describedBy(handlers: AnyHandlers): Record<string, MethodDefinition> {
  return Object.fromEntries(Object.keys(handlers).map((method) => [method, {}]));
}
