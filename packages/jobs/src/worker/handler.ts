/** The handlers of a worker, and how it calls them: schema, then trace, then middleware, then handler. */
import { context, SpanKind, type Tracer, trace } from "@opentelemetry/api";
import { InvalidArgumentError, InvalidOptionError } from "@ropeway/core";
import { contextOf, inSpan, tracerOf } from "@ropeway/core/internal";
import type {
  JobData,
  JobDefinitions,
  JobInput,
  JobName,
  JobReturn,
  JobTypes,
} from "../definition.ts";
import { NoHandlerError } from "../errors.ts";
import type { Middleware } from "../options.ts";
import type { Attempt, JobContext } from "./attempt.ts";

/** The jobs of a queue as a handler gets them: a union discriminated by `name`. */
export type AnyJobContext<Jobs extends JobTypes<Jobs>> = {
  readonly [N in JobName<Jobs>]: JobContext<JobData<Jobs, N>, N, JobInput<Jobs, N>>;
}[JobName<Jobs>];

/** Handles the jobs of one name. Its return value is the job's result. */
export type Handler<Jobs extends JobTypes<Jobs>, N extends JobName<Jobs>> = (
  job: JobContext<JobData<Jobs, N>, N, JobInput<Jobs, N>>,
) => JobReturn<Jobs, N> | Promise<JobReturn<Jobs, N>>;

/** Handles all jobs. */
export type AnyHandler<Jobs extends JobTypes<Jobs>> = (
  job: AnyJobContext<Jobs>,
) => JobReturn<Jobs, JobName<Jobs>> | Promise<JobReturn<Jobs, JobName<Jobs>>>;

/** A handler for each name. */
export type HandlerRecord<Jobs extends JobTypes<Jobs>> = {
  readonly [N in JobName<Jobs>]: Handler<Jobs, N>;
};

/** Handles several jobs at once. It may return an array with a result for each. */
export type BatchHandler<Jobs extends JobTypes<Jobs>> = (
  jobs: readonly AnyJobContext<Jobs>[],
) => BatchResults<Jobs> | Promise<BatchResults<Jobs>>;

/** The results of a batch, in the order of its jobs, or nothing. */
export type BatchResults<Jobs extends JobTypes<Jobs>> =
  | readonly JobReturn<Jobs, JobName<Jobs>>[]
  // biome-ignore lint/suspicious/noConfusingVoidType: a handler without a return statement returns void
  | void;

/** A handler for all jobs, or one for each name. */
export type Handlers<Jobs extends JobTypes<Jobs>> = AnyHandler<Jobs> | HandlerRecord<Jobs>;

/** Any handler, without its types. */
export type UntypedHandler = (job: JobContext) => unknown;
type UntypedBatchHandler = (jobs: readonly JobContext[]) => unknown;

/** The schemas, middleware and tracing around every handler. */
export interface HandlerOptions {
  readonly batch: number;
  readonly middleware: readonly Middleware[];
  readonly jobs: JobDefinitions<unknown> | undefined;
}

const HANDLERS =
  "a function, an object with a function for each job name, or the URL of a file: new URL(PATH, import.meta.url)";

/** Calls handlers. */
export class HandlerCaller {
  readonly batch: UntypedBatchHandler | undefined;
  readonly #handlerOf: (name: string) => UntypedHandler | undefined;
  readonly #middleware: readonly Middleware[];
  readonly #definitions: JobDefinitions<unknown> | undefined;
  readonly #tracer: Tracer = tracerOf("jobs");

  constructor(handlers: unknown, options: HandlerOptions) {
    const { batch, middleware, jobs } = options;
    this.#middleware = middleware;
    this.#definitions = jobs;
    if (batch > 0 && middleware.length > 0) {
      throw new InvalidOptionError("middleware", middleware, "empty with a batch handler"); // it gets one job
    }
    if (typeof handlers === "function") {
      this.batch = batch > 0 ? (handlers as UntypedBatchHandler) : undefined;
      this.#handlerOf = () => handlers as UntypedHandler;
      return;
    }
    if (batch > 0) throw new InvalidOptionError("batch", batch, "0 with a handler for each name");
    if (typeof handlers !== "object" || handlers === null) {
      throw new InvalidArgumentError("handlers", handlers, HANDLERS);
    }
    const entries = Object.entries(handlers as Record<string, UntypedHandler>);
    for (const [name, handler] of entries) {
      if (typeof handler !== "function") throw new InvalidOptionError(name, handler, "a function");
    }
    const byName = new Map(entries);
    this.#handlerOf = (name) => byName.get(name);
  }

  /** The handler's return value; a promise only if a schema, trace or middleware needs one. */
  call(attempt: Attempt): unknown {
    const handler = this.#handlerOf(attempt.name);
    if (handler === undefined) throw new NoHandlerError(attempt.id, attempt.name);
    if (this.#definitions === undefined) return this.#traced(attempt, handler);
    return this.#validated(attempt, handler, this.#definitions);
  }

  /** The batch handler's results, one for each attempt. A job that a schema refuses fails alone. */
  async callBatch(attempts: readonly Attempt[]): Promise<readonly unknown[]> {
    const definitions = this.#definitions;
    if (definitions === undefined) {
      const returned = await this.batch?.(attempts);
      return attempts.map((_, i) => at(returned, i));
    }
    const valid: Attempt[] = [];
    for (const attempt of attempts) {
      await failingAlone(attempt, async () => {
        attempt.data = await definitions.readData(attempt.name, attempt.data);
        valid.push(attempt);
      });
    }
    const results = new Map<Attempt, unknown>();
    const returned = valid.length === 0 ? [] : await this.batch?.(valid);
    for (const [i, attempt] of valid.entries()) {
      await failingAlone(attempt, async () => {
        results.set(attempt, await definitions.readResult(attempt.name, at(returned, i)));
      });
    }
    return attempts.map((attempt) => results.get(attempt));
  }

  async #validated(
    attempt: Attempt,
    handler: UntypedHandler,
    definitions: JobDefinitions<unknown>,
  ): Promise<unknown> {
    attempt.data = await definitions.readData(attempt.name, attempt.data);
    const result = await this.#traced(attempt, handler);
    return definitions.readResult(attempt.name, result);
  }

  #traced(attempt: Attempt, handler: UntypedHandler): unknown {
    const traceparent = attempt.record.options.x;
    if (traceparent === undefined) return this.#wrapped(attempt, handler);
    const parent = contextOf(traceparent);
    const attributes = {
      "messaging.system": "ropeway",
      "messaging.destination.name": attempt.queue,
    };
    const options = { kind: SpanKind.CONSUMER, attributes };
    const span = this.#tracer.startSpan(`process ${attempt.queue}`, options, parent);
    return context.with(trace.setSpan(parent, span), () =>
      inSpan(span, async () => this.#wrapped(attempt, handler)),
    );
  }

  #wrapped(attempt: Attempt, handler: UntypedHandler): unknown {
    if (this.#middleware.length === 0) return handler(attempt);
    const step = async (index: number): Promise<unknown> => {
      const middleware = this.#middleware[index];
      return middleware === undefined
        ? handler(attempt)
        : middleware(attempt, () => step(index + 1));
    };
    return step(0);
  }
}

/** Runs `work` for one job of a batch. If it throws, the job fails and the others do not. */
async function failingAlone(attempt: Attempt, work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    attempt.fail(error);
  }
}

function at(results: unknown, index: number): unknown {
  return Array.isArray(results) ? results[index] : undefined;
}
