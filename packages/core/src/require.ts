/**
 * Checks the first argument of a constructor. TypeScript users never see these errors. In plain JavaScript,
 * `new Queue("email")`, a URL in place of a connection, or `connect()` without `await` would end in a
 * TypeError about an internal field.
 */
import { withoutPassword } from "./endpoint.ts";
import { InvalidArgumentError, revive, show } from "./errors.ts";
import type { Redis } from "./redis.ts";

const HOW = "const redis = await connect(process.env.REDIS_URL)";

/** Throws InvalidArgumentError unless the value is a connection that connect() made. */
export function requireRedis(redis: unknown): asserts redis is Redis {
  requireMethods(redis, ["send", "run", "blocking"], {
    argument: "redis",
    made: `a connection: ${HOW}`,
  });
}

/** Throws InvalidArgumentError unless the value is a function. */
export function requireFunction(argument: string, value: unknown): void {
  if (typeof value !== "function") throw new InvalidArgumentError(argument, value, "a function");
}

/** The name of an argument, and how to get a value for it. */
export interface RequiredArgument {
  readonly argument: string;
  /** Completes the sentence "must be ...". */
  readonly made: string;
}

/** Throws InvalidArgumentError unless the value has these methods. */
export function requireMethods(
  value: unknown,
  methods: readonly string[],
  { argument, made }: RequiredArgument,
): void {
  const members = Object(value) as Record<string, unknown>;
  if (methods.every((name) => typeof members[name] === "function")) return;
  const forgotten = typeof members.then === "function" ? " Add the missing await." : "";
  const shown = kindOf(value);
  // The error does not contain the value, because a client of another library holds passwords.
  throw revive(
    { INVALID_ARGUMENT: InvalidArgumentError },
    {
      code: "INVALID_ARGUMENT",
      message: `${argument} is ${shown}, but must be ${made}.${forgotten}`,
      details: { argument, value: shown, allowed: made },
    },
  );
}

/** A string or number itself, without the password of a URL; for other values, their kind. */
function kindOf(value: unknown): string {
  if (typeof value === "string") return show(withoutPassword(value));
  if (typeof value === "function") return "a function";
  if (typeof value !== "object" || value === null) return show(value);
  const name = Object.getPrototypeOf(value)?.constructor?.name;
  return typeof name === "string" && name !== "" && name !== "Object"
    ? `an instance of ${name}`
    : "an object";
}
