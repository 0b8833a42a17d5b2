/** What the command line says about a call: its wire, target, params and ticket. */
import { show } from "@ropeway/core/internal";
import type { ClientOptions, Progress } from "@ropeway/rpc";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { payloadOf } from "../terminal/input.ts";

export type Report = Pick<Progress, "percent" | "message">;

export function showProgress(output: Context["output"], { percent, message }: Report): void {
  output.note(`${Math.round(percent * 100)} % ${message}`);
}

/** A call as the command line has it. */
export interface Request {
  readonly ns: string;
  /** service.method, or the function of the kw wire. */
  readonly rest: string;
  /** "" in the kw wire. */
  readonly service: string;
  readonly params: unknown;
}

export async function requestOf(context: Context): Promise<Request> {
  const [target = "", text = "[]"] = context.arguments;
  const kw = context.options.dialect === "kw";
  const shape = "service.method or namespace/service.method";
  const { ns, rest } = kw ? { ns: "default", rest: target } : splitNamespace(target, shape);
  const [service = ""] = kw ? [] : rest.split(".", 1);
  if (!kw && !/^[^.]+\../.test(rest)) throw wrongTarget(target, shape);
  const params = readParams(await payloadOf(context, text, "the params"));
  return { ns, rest, service, params };
}

/** A ticket of ours is namespace/TICKET; one that a program printed has no namespace. */
export function ticketOf({ arguments: [given = ""], options }: Context): {
  ns: string;
  ticket: string;
} {
  const [, ns, ticket] = /^(?:(.+)\/)?([^/]+\/[^/]+)$/.exec(given) ?? [];
  if (ticket === undefined) {
    throw new UsageError(`the ticket is ${show(given)}, but must be what \`rpc submit\` printed`);
  }
  return options.dialect === "kw" ? { ns: "", ticket: given } : { ns: ns ?? "default", ticket };
}

export function wireOf({ options }: Context, ns: string): ClientOptions {
  return options.dialect === "kw" ? { dialect: "kw", prefix: String(options.prefix) } : { ns };
}

/** Without a namespace it is `default`, as in the library. */
export function splitNamespace(target: string, shape: string): { ns: string; rest: string } {
  const at = target.lastIndexOf("/");
  if (at < 0 && target !== "") return { ns: "default", rest: target };
  if (at <= 0 || at === target.length - 1) throw wrongTarget(target, shape);
  return { ns: target.slice(0, at), rest: target.slice(at + 1) };
}

function wrongTarget(target: string, shape: string): UsageError {
  return new UsageError(`the target is ${show(target)}, but must be ${shape}`);
}

function readParams(text: string): unknown {
  try {
    const params: unknown = JSON.parse(text);
    if (typeof params === "object" && params !== null) return params;
  } catch {
    // the error below
  }
  throw new UsageError(`the params are ${show(text)}, but must be a JSON array or object`);
}
