/** The definition of the echo service for typed calls, with a hand-written Standard Schema. */
import type { Schema } from "@ropeway/core";
import { defineService, type Service } from "@ropeway/rpc";

/** The parameters and the result of an echo. */
export interface Echo {
  readonly a: number;
  readonly b: string;
}

const echo: Schema<Echo> = {
  "~standard": {
    version: 1,
    vendor: "bench",
    validate: (value) => {
      const { a, b } = (value ?? {}) as Partial<Echo>;
      return typeof a === "number" && typeof b === "string"
        ? { value: { a, b } }
        : { issues: [{ message: "not an Echo" }] };
    },
  },
};

type Methods = {
  readonly echo: { readonly input: Schema<Echo>; readonly output: Schema<Echo> };
};

export const typed: Service<Methods, Record<never, never>> = defineService<Methods>("typed", {
  echo: { input: echo, output: echo },
});
