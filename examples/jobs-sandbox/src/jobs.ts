/** The jobs of the queue, declared once: validated when they are added and before they run. */
import { defineJobs, type JobDefinitions, type JobsOf } from "@ropeway/jobs";
import { z } from "zod";

const schemas = {
  primes: { data: z.object({ below: z.number().int().positive() }), result: z.number() },
  forever: { data: z.undefined(), result: z.never() },
};

/** The types of the jobs, for handlers. */
export type Jobs = JobsOf<typeof schemas>;

export const jobs: JobDefinitions<Jobs> = defineJobs(schemas);
