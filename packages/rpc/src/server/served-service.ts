/** A service in a worker: methods with their handlers, and lists with their meaning. */
import { InvalidArgumentError } from "@ropeway/core";
import { checkName } from "../keys.ts";
import {
  type AnyHandlers,
  describeMethod,
  type MethodDefinition,
  type MethodTable,
} from "../service/service.ts";
import { Histogram } from "../telemetry/histogram.ts";
import type { CallContext } from "./call-context.ts";
import type { DurableFetcher } from "./durable-fetcher.ts";

/**
 * A layer around every handler. `context.params` holds the arguments as received and
 * `context.metadata` the headers. `next()` runs the inner layers and the handler.
 */
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
  /** For the registry: method and JSON, alternating. */
  readonly descriptions: readonly string[];
}

/** The list that a text was popped from. */
export interface Source {
  readonly list: string;
  readonly service: ServedService;
  /** The method, in a wire with a list per method, where the message does not name it. */
  readonly method: string | undefined;
  /** The session group, if it is a session list. */
  readonly group: string | undefined;
  /** Keeps the call until its response is written, if it must not be lost. */
  durable: DurableFetcher | undefined;
}

/** Combines a definition, or only a name, with its handlers. Throws InvalidArgumentError. */
export function serveService(
  service: { readonly name: string; readonly methods: MethodTable } | string,
  handlers: AnyHandlers,
): ServedService {
  if (typeof handlers !== "object" || handlers === null) {
    throw new InvalidArgumentError(
      "handlers",
      handlers,
      "an object with a function for each method",
    );
  }
  const { name, methods } =
    typeof service === "string" ? { name: service, methods: definedBy(handlers) } : service;
  checkName(name, "the name of the service");
  const served = new Map<string, ServedMethod>();
  const descriptions: string[] = [];
  for (const [method, definition] of Object.entries(methods)) {
    const handler = Object.hasOwn(handlers, method) ? handlers[method] : undefined;
    if (typeof handler !== "function") {
      throw new InvalidArgumentError(
        `handlers.${method} of service ${name}`,
        handler,
        "a function",
      );
    }
    const description = describeMethod(definition);
    descriptions.push(method, JSON.stringify(description));
    served.set(method, {
      ...definition,
      name: method,
      args: description.args,
      handler: handler as ServedMethod["handler"],
      stats: new Histogram(),
      attributes: {
        ok: { service: name, method, outcome: "ok" },
        failed: { service: name, method, outcome: "error" },
      },
    });
  }
  return { name, methods: served, descriptions };
}

function definedBy(handlers: AnyHandlers): Record<string, MethodDefinition> {
  return Object.fromEntries(Object.keys(handlers).map((method) => [method, {}]));
}
