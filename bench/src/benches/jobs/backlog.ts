/** Measures the cost of a backlog: the same work with a short and with a very long waiting list. */
import type { Ended, NewJob, Taken } from "@ropeway/jobs/internal";
import type { Contender, Slice, Work } from "../../bench.ts";
import { Control } from "./control.ts";

export const SHALLOW = "1,000 waiting";
export const DEEP = "1,000,000 waiting";
export const FEW_GROUPS = "1,000 groups";
export const MANY_GROUPS = "100,000 groups";

const STEP = 50;
const FILLED_AT_ONCE = 500;

/** The waiting jobs, and the jobs that are added. */
interface Backlog {
  fill(control: Control, json: string): Promise<void>;
  job(number: number, json: string): NewJob;
  /** The way an ended job is reported. */
  readonly how: Ended["how"];
}

/** A backlog of `waiting` jobs in the waiting list. */
export function waitingJobs(name: string, waiting: number): Contender {
  return backlog(name, {
    fill: (control, json) => control.fill(waiting, json),
    job: (number, json) => ({ id: `add.${number}`, where: "", record: `;0;0;\njob\n${json}` }),
    how: "",
  });
}

/** A backlog of `groups` groups with one waiting job each. */
export function waitingGroups(name: string, groups: number): Contender {
  const job = (number: number, json: string): NewJob => {
    const group = JSON.stringify({ g: `tenant-${number % groups}` });
    return { id: `add.${number}`, where: group, record: `;0;0;${group}\njob\n${json}` };
  };
  return backlog(name, {
    fill: async (control, json) => {
      const queue = control.queue();
      for (let first = -groups; first < 0; first += FILLED_AT_ONCE) {
        const jobs = Array.from({ length: FILLED_AT_ONCE }, (_, i) => {
          return { ...job(groups + first + i, json), id: `fill.${first + i}` };
        });
        await queue.add({ jobs, producer: "bench.fill", number: groups + first });
      }
    },
    job,
    how: "s",
  });
}

/** Ours with a backlog. It adds 50 jobs for each 50 that it takes. */
function backlog(name: string, { fill, job, how }: Backlog): Contender {
  return {
    name,
    role: "ours",
    open: async (stage) => {
      const control = await Control.open(stage);
      const queue = control.queue();
      const json = JSON.stringify(stage.text);
      await fill(control, json);
      let added = 0;
      let done: Ended[] = [];
      return {
        run: async ({ ms }: Slice): Promise<Work> => {
          let checked = 0;
          let operations = 0;
          for (
            const until = performance.now() + ms;
            performance.now() < until;
            operations += STEP
          ) {
            const jobs = Array.from({ length: STEP }, () => job(added++, json));
            const order = { worker: "bench", leaseMs: 30_000, want: STEP, done, undone: [] };
            const [, taken] = await Promise.all([
              queue.add({ jobs, producer: "bench.0", number: added }),
              queue.next(order),
            ]);
            checked += taken.jobs.length / 2;
            done = endedOf(taken, how);
          }
          return { operations, checked };
        },
        close: () => control.close(),
      };
    },
  };
}

/** The taken jobs as ended jobs. */
function endedOf({ jobs, firstFence }: Taken, how: Ended["how"]): Ended[] {
  const ended: Ended[] = [];
  for (let i = 0; i < jobs.length; i += 2) {
    const fence = firstFence + i / 2 + 1;
    ended.push({ id: jobs[i] as string, fence, how, json: "" });
  }
  return ended;
}
