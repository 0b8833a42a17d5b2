import { serve } from "../src/remote.ts";

serve((config: { greeting: string }) => {
  if (config.greeting === "") throw new Error("no greeting");
  return {
    greet: (name: string) => `${config.greeting} ${name}`,
    fail: () => {
      throw new RangeError("as asked");
    },
    spin: (rounds: number) => {
      let sum = 0;
      for (let index = 0; index < rounds; index++) sum += Math.sqrt(index);
      return sum;
    },
    die: () => process.exit(3),
  };
});
