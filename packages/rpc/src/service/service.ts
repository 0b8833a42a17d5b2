/**
 * A service is described once; the caller's types, the validation on both sides and what the registry
 * shows all come from that one description.
 *
 * ```ts
 * const users = defineService("user", {
 *   addUser: { input: z.object({ name: z.string() }), output: z.number(), doc: "Adds a user." },
 *   feed: { input: z.object({ since: z.number() }), output: event, kind: "stream" },
 * });
 * ```
 */

import { InvalidParamsError, InvalidResultError } from "../errors.ts";
import { checkName } from "../keys.ts";
import type { CallContext } from "../server/call-context.ts";
import {
  type AnySchema,
  type InputOf,
  jsonSchemaOf,
  type OutputOf,
  portable,
  summary,
} from "./schema.ts";

/** One method: all members are optional. */
export interface MethodDefinition {
  /** What the caller passes: an object, a tuple, or one value. */
  readonly input?: AnySchema;
  /** What the caller gets; with `kind: "stream"` or `"duplex"`, each item of it. */
  readonly output?: AnySchema;
  /** For `kind: "duplex"`: each item that the caller sends. */
  readonly incoming?: AnySchema;
  /** One sentence for the registry. */
  readonly doc?: string;
  /** Names of positional arguments. @default the properties of `input`, if its library tells */
  readonly args?: readonly string[];
  /** @default "unary" */
  readonly kind?: "unary" | "stream" | "duplex";
  /** Running it twice does no harm: callers may retry it. @default false */
  readonly idempotent?: boolean;
}

/** The methods of a service by name. */
export type MethodTable = Readonly<Record<string, MethodDefinition>>;

/** A described service. */
export interface Service<M extends MethodTable = MethodTable> {
  readonly name: string;
  readonly methods: M;
}

/** Describes a service; see the top of the file. */
export function defineService<const M extends MethodTable>(name: string, methods: M): Service<M> {
  checkName(name);
  return { name, methods };
}

/** What a caller passes to a method. */
export type CallerInput<D extends MethodDefinition> = InputOf<D["input"]>;
/** What a caller gets from a method. */
export type CallerOutput<D extends MethodDefinition> = OutputOf<D["output"]>;

/** What a worker implements for a method. */
export type Handler<D extends MethodDefinition> = D["kind"] extends "stream"
  ? (input: OutputOf<D["input"]>, context: CallContext) => AsyncIterable<InputOf<D["output"]>>
  : D["kind"] extends "duplex"
    ? (
        input: OutputOf<D["input"]>,
        context: CallContext & { readonly incoming: AsyncIterable<OutputOf<D["incoming"]>> },
      ) => AsyncIterable<InputOf<D["output"]>>
    : (
        input: OutputOf<D["input"]>,
        context: CallContext,
      ) => InputOf<D["output"]> | Promise<InputOf<D["output"]>>;

/** All handlers of a service. */
export type Handlers<M extends MethodTable> = { readonly [K in keyof M]: Handler<M[K]> };

/** Handlers without a description: they get `params` as it came. */
export type AnyHandlers = Readonly<
  // biome-ignore lint/suspicious/noExplicitAny: what comes in is not described
  Record<string, (params: any, context: CallContext) => unknown>
>;

/** What the registry shows about a method. */
export interface MethodDescription {
  readonly doc: string;
  readonly args: readonly string[];
  readonly return: string;
  readonly kind: "unary" | "stream" | "duplex";
  readonly idempotent?: boolean;
  readonly schema?: { readonly in?: object; readonly out?: object };
}

/** The registry's view of a method. */
export function describeMethod(definition: MethodDefinition): MethodDescription {
  const input = jsonSchemaOf(definition.input, "input");
  const output = jsonSchemaOf(definition.output, "output");
  const schema = { ...(input && { in: input }), ...(output && { out: output }) };
  return {
    doc: definition.doc ?? "",
    args: definition.args ?? argumentNames(input),
    return: typeof output?.type === "string" ? output.type : "any",
    kind: definition.kind ?? "unary",
    ...(definition.idempotent ? { idempotent: true } : {}),
    ...(Object.keys(schema).length > 0 ? { schema } : {}),
  };
}

function argumentNames(input: Record<string, unknown> | undefined): readonly string[] {
  return typeof input?.properties === "object" ? Object.keys(input.properties as object) : [];
}

/** A method's arguments as `params`: arrays and objects as they are, anything else as the only one. */
export function toParams(input: unknown): unknown {
  if (input === undefined) return [];
  return typeof input === "object" && input !== null ? input : [input];
}

/** Checks one value; synchronous as long as the schema is. */
export function validate(
  schema: AnySchema | undefined,
  value: unknown,
  fail: (why: string, issues: unknown) => Error,
): unknown {
  if (schema === undefined) return value;
  const outcome = schema["~standard"].validate(value);
  const settle = (validated: Awaited<typeof outcome>) => {
    if (validated.issues !== undefined) {
      throw fail(summary(validated.issues), portable(validated.issues));
    }
    return validated.value;
  };
  return outcome instanceof Promise ? outcome.then(settle) : settle(outcome);
}

/**
 * The handler's input from what came: positional arguments get their names, and a single argument may
 * come bare or as the only element.
 */
export function readInput(
  method: { readonly name: string; readonly args: readonly string[] } & MethodDefinition,
  params: unknown,
): unknown {
  const { input, name, args } = method;
  if (input === undefined) return params;
  const readings = readingsOf(params, args);
  const fail = (why: string, issues: unknown) => new InvalidParamsError(name, why, issues);
  const attempt = (at: number): unknown => {
    if (at === readings.length - 1) return validate(input, readings[at], fail);
    const outcome = input["~standard"].validate(readings[at]);
    const settle = (validated: Awaited<typeof outcome>) =>
      validated.issues === undefined ? validated.value : attempt(at + 1);
    return outcome instanceof Promise ? outcome.then(settle) : settle(outcome);
  };
  return attempt(0);
}

/** What `params` may mean, most likely first. */
function readingsOf(params: unknown, args: readonly string[]): readonly unknown[] {
  if (!Array.isArray(params)) return [params];
  if (params.length === 0) return [params, undefined];
  if (params.length === 1 && typeof params[0] === "object") return [params, params[0]];
  if (args.length >= params.length) {
    const named = Object.fromEntries(params.map((value, i) => [args[i], value]));
    return params.length === 1 ? [params, params[0], named] : [params, named];
  }
  return params.length === 1 ? [params, params[0]] : [params];
}

/** Checks what a handler returned, or what a caller received. */
export function readOutput(
  method: string,
  schema: MethodDefinition["output"],
  value: unknown,
): unknown {
  return validate(schema, value, (why, data) => new InvalidResultError(method, why, { data }));
}
