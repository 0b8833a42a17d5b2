/** The echo service with a definition, for typed calls: a Standard Schema written by hand. */
import type { Schema } from "@ropeway/core";
import { defineService, type Service } from "@ropeway/rpc";

/** What is echoed. */
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
