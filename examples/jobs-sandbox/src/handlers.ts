/** Work that would block an event loop. It runs in a process of its own, which can be killed. */
import type { Handlers } from "@ropeway/jobs";
import type { Jobs } from "./jobs.ts";

export const handlers: Handlers<Jobs> = {
  primes: async (job) => {
    let found = 0;
    for (let n = 2; n < job.data.below; n++) {
      let divisor = 2;
      while (divisor * divisor <= n && n % divisor > 0) divisor++;
      if (divisor * divisor > n) found++;
    }
    await job.log(`${found} primes below ${job.data.below}`);
    return found;
  },
  forever: () => {
    for (;;) Math.random();
  },
};
