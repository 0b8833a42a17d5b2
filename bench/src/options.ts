/** The command line of `npm run bench`. */
import { parseArgs } from "node:util";

/** The parsed options. */
export interface BenchOptions {
  /** Lists the benches if undefined. */
  readonly name: string | undefined;
  readonly quick: boolean;
  readonly rounds: number;
  readonly payload: number | undefined;
  readonly peers: readonly string[] | undefined;
  readonly only: string | undefined;
  readonly json: boolean;
  readonly publish: boolean;
}

export const USAGE = `npm run bench -- <name> [options]

  --quick          shorter slices, less than a minute in total
  --rounds N       measured rounds, at least 5 (default 5), after a warm-up round
  --peers a,b      only these peers; "none" for none
  --payload N      bytes of payload per operation
  --only string    only scenarios whose id contains the string
  --json           print the results as JSON instead of tables
  --publish        also write docs/benchmarks/<name>.json, .svg and the section in docs/benchmarks.md
`;

/** Parses the arguments. Throws a TypeError or RangeError that explains the mistake. */
export function parseOptions(args: readonly string[]): BenchOptions {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      quick: { type: "boolean", default: false },
      rounds: { type: "string", default: "5" },
      peers: { type: "string" },
      payload: { type: "string" },
      only: { type: "string" },
      json: { type: "boolean", default: false },
      publish: { type: "boolean", default: false },
    },
  });
  if (positionals.length > 1)
    throw new TypeError(`run one bench at a time, not ${positionals.join(" ")}`);
  return {
    name: positionals[0],
    quick: values.quick,
    rounds: wholeNumber("--rounds", values.rounds, 5),
    payload: values.payload === undefined ? undefined : wholeNumber("--payload", values.payload, 1),
    peers: values.peers?.split(",").filter((peer) => peer !== "" && peer !== "none"),
    only: values.only,
    json: values.json,
    publish: values.publish,
  };
}

function wholeNumber(name: string, text: string, min: number): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < min) {
    throw new RangeError(`${name} must be a whole number of at least ${min}, not ${text}`);
  }
  return value;
}
