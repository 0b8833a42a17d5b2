/** The check of the first argument of all classes that work on a merge queue. */
import { requireMethods } from "@ropeway/core/internal";

/** Throws InvalidArgumentError unless the value is a MergeQueue. */
export function requireQueue(queue: unknown): void {
  const made = "a merge queue: const queue = new MergeQueue(await connect(process.env.REDIS_URL))";
  requireMethods(queue, ["push", "pushAll"], { argument: "queue", made });
}
