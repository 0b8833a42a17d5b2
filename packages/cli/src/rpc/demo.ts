/** The service `demo`: small methods that show what calls can do, for callers of either wire. */
import { show } from "@ropeway/core/internal";
import { type CallContext, defineService, type Handlers, InvalidParamsError } from "@ropeway/rpc";

const STEPS = 10;

const definition = {
  echo: { doc: "Gives back its argument.", args: ["value"] },
  add: { doc: "The sum of two numbers.", args: ["a", "b"], idempotent: true },
  fail: { doc: "Fails with the message.", args: ["message"] },
  slow: { doc: "Takes the given number of seconds and reports its progress.", args: ["seconds"] },
  count: { doc: "A stream of the numbers from 1 to n.", args: ["n"], kind: "stream" },
  whoami: { doc: "The name of the node that answers.", args: [] },
} as const;

export const demo: ReturnType<typeof defineService<typeof definition>> = defineService(
  "demo",
  definition,
);

/** Arguments by position, or by name as the description names them. */
function argumentsOf(params: unknown, names: readonly string[]): unknown[] {
  if (Array.isArray(params)) return params;
  const named = (params ?? {}) as Record<string, unknown>;
  return names.map((name) => named[name]);
}

/** The same, of a method that takes nothing but numbers. */
function numbersOf(params: unknown, method: "add" | "slow" | "count"): number[] {
  const names = definition[method].args;
  const given = argumentsOf(params, names);
  return names.map((name, i) => {
    const value = given[i];
    if (typeof value === "number") return value;
    throw new InvalidParamsError(method, `${name} is ${show(value)}, but must be a number`);
  });
}

export const demoHandlers: Handlers<typeof definition> = {
  echo: (params) => argumentsOf(params, definition.echo.args)[0],
  add: (params) => {
    const [a = 0, b = 0] = numbersOf(params, "add");
    return a + b;
  },
  fail: (params) => {
    throw new Error(String(argumentsOf(params, definition.fail.args)[0] ?? "failed as asked"));
  },
  slow: async (params, context) => {
    const [seconds = 0] = numbersOf(params, "slow");
    for (let step = 1; step <= STEPS; step++) {
      await pause((seconds * 1_000) / STEPS, context);
      context.progress(step / STEPS, `step ${step} of ${STEPS}`);
    }
    return `took ${seconds} s`;
  },
  async *count(params) {
    const [n = 0] = numbersOf(params, "count");
    for (let i = 1; i <= n; i++) yield i;
  },
  whoami: (_params, { node }) => node,
};

/** Waits, unless the call is cancelled first. */
function pause(ms: number, { signal }: CallContext): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, ms);
    signal.addEventListener("abort", stop, { once: true });
  });
}
