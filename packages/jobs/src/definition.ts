/**
 * The types of a queue's jobs: by an interface, or from one definition with schemas.
 *
 *   interface Jobs { welcome: { data: { to: string }; result: string } }
 *   const queue = new Queue<Jobs>(redis, "email");
 *
 *   const jobs = defineJobs({ welcome: { data: z.object({ to: z.email() }), result: z.string() } });
 *   const queue = new Queue(redis, "email", { jobs });
 *
 * With a definition, data is validated when a job is added and again before its handler runs. The queue
 * stores the data as it was passed to add(); the handler gets the output of the schema.
 */
import {
  type InputOf,
  InvalidArgumentError,
  InvalidNameError,
  type OutputOf,
  type Schema,
} from "@ropeway/core";
import { isSchema, issuesText } from "@ropeway/core/internal";
import { InvalidDataError } from "./errors.ts";

/** The types of one job. */
export interface JobType {
  /** The data that the handler gets. */
  readonly data: unknown;
  /** The data that add() takes, if a schema converts it. @default the type of `data` */
  readonly input?: unknown;
  /** The result that result() and run() return. @default unknown */
  readonly result?: unknown;
  /** What the handler returns, if a schema converts it. @default the type of `result` */
  readonly returns?: unknown;
}

/** The jobs of a queue without declared types: any name, unknown data. */
export type AnyJobs = Record<string, { readonly data: unknown; readonly result: unknown }>;

/** The constraint on a map of job types; interfaces satisfy it too. */
export type JobTypes<Jobs> = { readonly [N in keyof Jobs]: { readonly data: unknown } };

/** The names of a queue's jobs. */
export type JobName<Jobs> = keyof Jobs & string;

/** The data that a handler gets for a job. */
export type JobData<Jobs, N extends JobName<Jobs>> = Jobs[N] extends { readonly data: infer D }
  ? D
  : unknown;

/** The data that add() takes for a job. */
export type JobInput<Jobs, N extends JobName<Jobs>> = Jobs[N] extends { readonly input: infer I }
  ? I
  : JobData<Jobs, N>;

/** The return type of a job's handler. */
export type JobReturn<Jobs, N extends JobName<Jobs>> = Jobs[N] extends { readonly returns: infer R }
  ? R
  : JobResult<Jobs, N>;

/** The result of a job that result() and run() return. */
export type JobResult<Jobs, N extends JobName<Jobs>> = Jobs[N] extends { readonly result: infer R }
  ? R
  : unknown;

/** The schemas of one job. */
export interface JobSchemas {
  readonly data?: Schema<unknown, unknown>;
  readonly result?: Schema<unknown, unknown>;
}

/** The job types that schemas describe. */
export type JobsOf<Schemas> = {
  readonly [N in keyof Schemas]: {
    readonly input: Schemas[N] extends { readonly data: infer S } ? InputOf<S> : unknown;
    readonly data: Schemas[N] extends { readonly data: infer S } ? OutputOf<S> : unknown;
    readonly result: Schemas[N] extends { readonly result: infer S } ? OutputOf<S> : unknown;
    readonly returns: Schemas[N] extends { readonly result: infer S } ? InputOf<S> : unknown;
  };
};

/** The jobs of a queue with their schemas; made by defineJobs(). */
export class JobDefinitions<Jobs> {
  /** Carries the types; never set. */
  declare readonly types?: Jobs;
  readonly #schemas: ReadonlyMap<string, JobSchemas>;

  constructor(schemas: Readonly<Record<string, JobSchemas>>) {
    checkObject("jobs", schemas, "an object with the schemas of each job");
    for (const [name, job] of Object.entries(schemas)) {
      checkObject(name, job, SCHEMAS);
      for (const key of Object.keys(job)) {
        if (key !== "data" && key !== "result") throw new InvalidArgumentError(name, job, SCHEMAS);
      }
      checkSchema(`${name}.data`, job.data);
      checkSchema(`${name}.result`, job.result);
    }
    this.#schemas = new Map(Object.entries(schemas));
  }

  /** Throws InvalidNameError if the name is not defined, InvalidDataError if the schema refuses the data. */
  async checkInput(name: string, data: unknown): Promise<void> {
    if (!this.#schemas.has(name)) {
      throw new InvalidNameError(
        "job name",
        name,
        `one of ${[...this.#schemas.keys()].join(", ")}`,
      );
    }
    await this.readData(name, data);
  }

  /** checkInput() for the jobs of a flow. */
  async checkFlow(
    jobs: Iterable<{ readonly name: string; readonly data?: unknown }>,
  ): Promise<void> {
    for (const { name, data } of jobs) await this.checkInput(name, data);
  }

  /** The data after validation by the schema. */
  async readData(name: string, data: unknown): Promise<unknown> {
    return validated(this.#schemas.get(name)?.data, { name, value: data, what: "" });
  }

  /** The result after validation by the schema. */
  async readResult(name: string, result: unknown): Promise<unknown> {
    const what = "the result: ";
    return validated(this.#schemas.get(name)?.result, { name, value: result, what });
  }
}

/** Defines the jobs of a queue by any Standard Schema (zod, valibot, arktype, ...). */
export function defineJobs<const Schemas extends Readonly<Record<string, JobSchemas>>>(
  schemas: Schemas,
): JobDefinitions<JobsOf<Schemas>> {
  return new JobDefinitions<JobsOf<Schemas>>(schemas);
}

const SCHEMAS = "an object with schemas for data and result";

function checkObject(what: string, value: unknown, allowed: string): void {
  if (typeof value === "object" && value !== null) return;
  throw new InvalidArgumentError(what, value, allowed);
}

function checkSchema(what: string, schema: Schema<unknown, unknown> | undefined): void {
  if (schema === undefined || isSchema(schema)) return;
  throw new InvalidArgumentError(what, schema, "a Standard Schema");
}

async function validated(
  schema: Schema<unknown, unknown> | undefined,
  given: { readonly name: string; readonly value: unknown; readonly what: string },
): Promise<unknown> {
  if (schema === undefined) return given.value;
  const outcome = await schema["~standard"].validate(given.value);
  if (outcome.issues === undefined) return outcome.value;
  throw new InvalidDataError(given.name, `${given.what}${issuesText(outcome.issues)}`);
}
