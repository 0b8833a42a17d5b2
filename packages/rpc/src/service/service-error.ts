/**
 * Errors that a service declares. Each is a class, so a handler throws it and a caller catches it by
 * `instanceof`, with typed data on both sides:
 *
 *   const orders = defineService("order", methods, { errors: { OUT_OF_STOCK: z.object({ left: z.number() }) } });
 *   throw new orders.errors.OUT_OF_STOCK({ left: 0 });
 *   if (error instanceof orders.errors.OUT_OF_STOCK) console.log(error.data.left);
 *
 * On the wire: {"code":-32010,"message":"OUT_OF_STOCK","data":{"error":"OUT_OF_STOCK","data":{"left":0}}}
 */
import { type InputOf, InvalidArgumentError, type OutputOf } from "@ropeway/core";
import { issuesText, revive } from "@ropeway/core/internal";
import { ApplicationError, RPC_CODES } from "../errors.ts";
import type { AnySchema } from "./schema.ts";

/** The errors of a service: name -> schema of the data. */
export type ServiceErrors = Readonly<Record<string, AnySchema>>;

/** An error that a service declares. */
export interface ServiceError<Name extends string = string, Data = unknown>
  extends ApplicationError {
  /** The name under which the service declares it. */
  readonly error: Name;
  readonly data: Data;
}

/** The class of a declared error. */
export type ServiceErrorClass<Name extends string, S> = new (
  data: InputOf<S>,
  message?: string,
) => ServiceError<Name, OutputOf<S>>;

/** The classes of all declared errors. */
export type ServiceErrorClasses<E extends ServiceErrors> = {
  readonly [K in keyof E & string]: ServiceErrorClass<K, E[K]>;
};

/** Creates the classes of the declared errors. */
export function declareErrors<E extends ServiceErrors>(errors: E): ServiceErrorClasses<E> {
  const classes = Object.entries(errors).map(([name, schema]) => [name, declare(name, schema)]);
  return Object.fromEntries(classes) as ServiceErrorClasses<E>;
}

function declare(name: string, schema: AnySchema): typeof ApplicationError {
  const declared = class extends ApplicationError {
    constructor(data: unknown, message: string = name) {
      const outcome = schema["~standard"].validate(data);
      const issues = outcome instanceof Promise ? undefined : outcome.issues;
      if (issues !== undefined) {
        throw new InvalidArgumentError(`data of ${name}`, data, `valid: ${issuesText(issues)}`);
      }
      super(RPC_CODES.APPLICATION_ERROR, message, { error: name, data });
    }

    get error(): string {
      return name;
    }

    override get data(): unknown {
      return (this.details.data as { data?: unknown }).data;
    }
  };
  Object.defineProperty(declared, "name", { value: name });
  return declared as unknown as typeof ApplicationError;
}

/** An error of the wire as an instance of the service's class, if the service declares it. */
export function reviveServiceError(
  classes: Readonly<Record<string, unknown>>,
  error: unknown,
): unknown {
  if (!(error instanceof ApplicationError)) return error;
  const { error: name } = (error.details.data ?? {}) as { error?: unknown };
  if (typeof name !== "string" || !Object.hasOwn(classes, name)) return error;
  const { code, message, details } = error;
  const type = classes[name] as typeof ApplicationError;
  return revive({ [code]: type }, { code, message, details });
}
