/** The worker process. It counts jobs and records how long each took to start. */
import { serve } from "../../remote.ts";
import type { JobData, SystemPlace } from "./system.ts";
import { SYSTEMS } from "./systems.ts";

/** Options of the worker process. */
export interface WorkerConfig {
  readonly system: string;
  readonly place: SystemPlace;
  readonly concurrency: number;
}

serve(async ({ system, place, concurrency }: WorkerConfig) => {
  let count = 0;
  let sum = 0;
  let latencies: number[] = [];
  const open = SYSTEMS[system];
  if (open === undefined) throw new Error(`unknown system ${system}`);
  const opened = await open(place);
  const crew = await opened.work(concurrency, (data: JobData) => {
    latencies.push(Number(process.hrtime.bigint()) / 1e6 - data.at);
    count += 1;
    sum += data.n;
  });
  return {
    /** The number of jobs so far, the sum of their numbers, and the latencies since the last call. */
    seen: () => {
      const report = { count, sum, latencies };
      latencies = [];
      return report;
    },
    close: async () => {
      await crew.close();
      await opened.close();
    },
  };
});
