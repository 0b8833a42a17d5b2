/** Makes new jobs from callers' arguments: checked, with the queue's defaults, the trace and an id. */
import { currentTraceparent, IdSource } from "@ropeway/core/internal";
import { type FlowJob, FlowPlanner } from "../flow/flow.ts";
import { checkName } from "../name.ts";
import type { JobOptions } from "../options.ts";
import { encodeRecord, type RecordOptions } from "../record.ts";
import type { NewJob } from "../store/queue-store.ts";
import { placementText, planJob, withDefaults } from "./job-plan.ts";

/** Plans the jobs of one queue. */
export class JobPlanner {
  readonly #queue: string;
  readonly #defaults: JobOptions | undefined;
  readonly #ids = new IdSource();

  /** Throws InvalidOptionError if the defaults are wrong. */
  constructor(queue: string, defaults: JobOptions | undefined) {
    planJob(defaults);
    this.#queue = queue;
    this.#defaults = defaults;
  }

  /** Plans one job. */
  plan(name: string, data: unknown, options: JobOptions | undefined): NewJob {
    const wishes = withDefaults(this.#defaults, options);
    const plan = planJob(wishes);
    const traceparent = currentTraceparent();
    const recordOptions: RecordOptions =
      traceparent === undefined ? plan.options : { ...plan.options, x: traceparent };
    return {
      id: wishes?.id === undefined ? this.#ids.next() : checkName("job id", wishes.id),
      where: placementText(plan.placement),
      record: encodeRecord(name, data, recordOptions),
    };
  }

  /** Plans the jobs of a flow that checkTrees() accepted, its root first. */
  planFlow(flow: FlowJob): NewJob[] {
    const planner = new FlowPlanner({
      queue: this.#queue,
      defaults: this.#defaults,
      traceparent: currentTraceparent(),
    });
    return planner.plan(flow, flow.options?.id ?? this.#ids.next());
  }
}
