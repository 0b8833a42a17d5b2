/**
 * A service is defined once. The definition provides the caller's types, the validation on both sides and the
 * entry in the registry.
 *
 * ```ts
 * const users = defineService("user", {
 *   addUser: { input: z.object({ name: z.string() }), output: z.number(), doc: "Adds a user." },
 *   feed: { input: z.object({ since: z.number() }), output: event, kind: "stream" },
 * });
 * ```
 *
 * Versions run side by side: the version is a part of the name on the wire ("user@2"), so each has its
 * own queue, workers and description.
 */

import { type InputOf, InvalidNameError, type OutputOf, type Validated } from "@ropeway/core";
import { issuesText } from "@ropeway/core/internal";
import { InvalidParamsError, InvalidResultError } from "../errors.ts";
import { checkName } from "../keys.ts";
import type { CallContext } from "../server/call-context.ts";
import { type AnySchema, jsonSchemaOf, portable } from "./schema.ts";
import { declareErrors, type ServiceErrorClasses, type ServiceErrors } from "./service-error.ts";

/** One method. All members are optional. */
export interface MethodDefinition {
  /** Schema of the argument: an object, a tuple, or one value. */
  readonly input?: AnySchema;
  /**
   * Schema of the result; with `kind: "stream"` or `"duplex"`, of each item. The worker applies it before sending,
   * so members that it does not name are not sent, and a typed caller applies it again to the received value. A
   * transform must therefore leave its own result unchanged: `trim()`, `default()` and `coerce.date()` do.
   */
  readonly output?: AnySchema;
  /** For `kind: "duplex"`: schema of each item that the caller sends. */
  readonly incoming?: AnySchema;
  /** One sentence for the registry. */
  readonly doc?: string;
  /** Names of positional arguments. @default the properties of `input`, if its JSON Schema is known */
  readonly args?: readonly string[];
  /** @default "unary" */
  readonly kind?: "unary" | "stream" | "duplex";
  /** Whether running it twice is harmless, so that callers may retry it. @default false */
  readonly idempotent?: boolean;
}

/** The methods of a service by name. */
export type MethodTable = Readonly<Record<string, MethodDefinition>>;

/** A service created by defineService(): serve it with RpcServer, call it with RpcClient.service(). */
export interface Service<
  M extends MethodTable = MethodTable,
  E extends ServiceErrors = ServiceErrors,
> {
  /** The name on the wire, with its version: "user@2". */
  readonly name: string;
  readonly methods: M;
  /** The classes of the declared errors. */
  readonly errors: ServiceErrorClasses<E>;
}

/** The options of a service. */
export interface ServiceOptions<E extends ServiceErrors = ServiceErrors> {
  /** Errors that handlers throw on purpose: name -> schema of the data. */
  readonly errors?: E;
  /** Serves this definition beside those with other versions. @default none */
  readonly version?: string;
}

/** Defines a service. Throws InvalidNameError. */
export function defineService<
  const M extends MethodTable,
  const E extends ServiceErrors = Record<never, never>,
>(name: string, methods: M, options: ServiceOptions<E> = {}): Service<M, E> {
  const { version, errors } = options;
  checkName(name, "the name of the service");
  const wireName = version === undefined ? name : `${name}@${version}`;
  checkName(wireName, "the version of the service");
  for (const method of Object.keys(methods)) checkMethod(method);
  return { name: wireName, methods, errors: declareErrors((errors ?? {}) as E) };
}

function checkMethod(method: string): void {
  if (method !== "" && !method.includes(".")) return;
  throw new InvalidNameError(
    "the name of a method",
    method,
    'a string without "." that is not empty',
  );
}

/** The input that a caller passes to a method. */
export type CallerInput<D extends MethodDefinition> = InputOf<D["input"]>;
/** The result that a caller gets from a method. */
export type CallerOutput<D extends MethodDefinition> = OutputOf<D["output"]>;

/** The function that a worker implements for a method. */
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

/** A handler without a definition. Its params are an array or an object; it may declare which. */
export type UntypedHandler = { handle(params: object, context: CallContext): unknown }["handle"];

/** Handlers without a definition, by method. */
export type AnyHandlers = Readonly<Record<string, UntypedHandler>>;

/** A method as the registry describes it. */
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

/** A method's arguments as `params`: arrays and objects unchanged, other values as the only element. */
export function toParams(input: unknown): unknown {
  if (input === undefined) return [];
  return typeof input === "object" && input !== null ? input : [input];
}

/** Checks one value. Synchronous if the schema is. */
export function validate(
  schema: AnySchema | undefined,
  value: unknown,
  fail: (why: string, issues: unknown) => Error,
): unknown {
  if (schema === undefined) return value;
  const outcome = schema["~standard"].validate(value);
  return outcome instanceof Promise
    ? outcome.then((validated) => validValue(validated, fail))
    : validValue(outcome, fail);
}

function validValue(
  validated: Validated<unknown>,
  fail: (why: string, issues: unknown) => Error,
): unknown {
  if (validated.issues === undefined) return validated.value;
  throw fail(issuesText(validated.issues), portable(validated.issues));
}

/**
 * The handler's input from the received params: positional arguments get their names, and a single argument may
 * be sent directly or as the only element.
 */
export function readInput(
  method: { readonly name: string; readonly args: readonly string[] } & MethodDefinition,
  params: unknown,
): unknown {
  const { input, name, args } = method;
  if (input === undefined) return params;
  const fail = (why: string, issues: unknown) => new InvalidParamsError(name, why, issues);
  if (!Array.isArray(params)) return validate(input, params, fail);
  const readings = readingsOf(params, args);
  const attempt = (at: number): unknown => {
    if (at === readings.length - 1) return validate(input, readings[at], fail);
    const outcome = input["~standard"].validate(readings[at]);
    const settle = (validated: Awaited<typeof outcome>) =>
      validated.issues === undefined ? validated.value : attempt(at + 1);
    return outcome instanceof Promise ? outcome.then(settle) : settle(outcome);
  };
  return attempt(0);
}

/** The possible interpretations of `params`, most likely first. */
function readingsOf(params: readonly unknown[], args: readonly string[]): readonly unknown[] {
  if (params.length === 0) return [params, undefined];
  if (params.length === 1 && typeof params[0] === "object") return [params, params[0]];
  if (args.length >= params.length) {
    const named = Object.fromEntries(params.map((value, i) => [args[i], value]));
    return params.length === 1 ? [params, params[0], named] : [params, named];
  }
  return params.length === 1 ? [params, params[0]] : [params];
}

/** Checks the result of a handler, or the result that a caller received. */
export function readOutput(
  method: string,
  schema: MethodDefinition["output"],
  value: unknown,
): unknown {
  return validate(schema, value, (why, data) => new InvalidResultError(method, why, { data }));
}
