/** What a backlog costs: the same work in front of a short and of a very long waiting list. */
import type { Ended, Taken } from "@ropeway/jobs/internal";
import type { Contender, Slice, Work } from "../../bench.ts";
import { Control } from "./control.ts";

export const SHALLOW = "1,000 waiting";
export const DEEP = "1,000,000 waiting";

/** Ours, with a backlog: 50 jobs are added at the end for each 50 taken from the front. */
export function backlog(name: string, waiting: number): Contender {
  const step = 50;
  return {
    name,
    role: "ours",
    open: async (stage) => {
      const control = await Control.open(stage);
      const queue = control.queue();
      const json = JSON.stringify(stage.text);
      await control.fill(waiting, json);
      let added = 0;
      let done: Ended[] = [];
      return {
        run: async ({ ms }: Slice): Promise<Work> => {
          let checked = 0;
          let operations = 0;
          for (
            const until = performance.now() + ms;
            performance.now() < until;
            operations += step
          ) {
            const jobs = Array.from({ length: step }, () => {
              return { id: `add.${added++}`, where: "", record: `;0;0;\njob\n${json}` };
            });
            const order = { worker: "bench", leaseMs: 30_000, want: step, done, undone: [] };
            const [, taken] = await Promise.all([
              queue.add({ jobs, producer: "bench.0", number: added }),
              queue.next(order),
            ]);
            checked += taken.jobs.length / 2;
            done = endedOf(taken);
          }
          return { operations, checked };
        },
        close: () => control.close(),
      };
    },
  };
}

/** What was taken, as done. */
function endedOf({ jobs, firstFence }: Taken): Ended[] {
  const ended: Ended[] = [];
  for (let i = 0; i < jobs.length; i += 2) {
    const fence = firstFence + i / 2 + 1;
    ended.push({ id: jobs[i] as string, fence, how: "", json: "" });
  }
  return ended;
}
