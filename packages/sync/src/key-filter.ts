/** Decides which keys are copied. */
import { InvalidOptionError } from "@ropeway/core";
import { matchesGlob } from "./command/glob.ts";

/** A key matches a rule if it matches one of its conditions. */
export interface KeyRule {
  /** The key begins with one of these. */
  readonly prefixes?: readonly (string | Buffer)[];
  /** The key matches one of these, as in KEYS. */
  readonly globs?: readonly (string | Buffer)[];
  /** The key, read as UTF-8, matches one of these. */
  readonly patterns?: readonly RegExp[];
}

/** A filter copies keys that match `accept` (all keys, without it) and do not match `refuse`. */
export interface KeyFilterOptions {
  readonly accept?: KeyRule;
  readonly refuse?: KeyRule;
}

type Test = (key: Buffer) => boolean;

/** Decides whether a key is copied. */
export class KeyFilter {
  readonly #accept: Test | undefined;
  readonly #refuse: Test | undefined;

  /** Throws InvalidOptionError. */
  constructor({ accept, refuse }: KeyFilterOptions = {}) {
    this.#accept = accept === undefined ? undefined : matcher("filter.accept", accept);
    this.#refuse = refuse === undefined ? undefined : matcher("filter.refuse", refuse);
  }

  /** Whether all keys are copied. */
  get isOpen(): boolean {
    return this.#accept === undefined && this.#refuse === undefined;
  }

  accepts(key: Buffer): boolean {
    return (this.#accept?.(key) ?? true) && !(this.#refuse?.(key) ?? false);
  }
}

const FIELDS = ["prefixes", "globs", "patterns"];

function matcher(option: string, rule: KeyRule): Test {
  requireFields(option, rule, FIELDS);
  if (rule.patterns !== undefined && !Array.isArray(rule.patterns)) {
    throw new InvalidOptionError(`${option}.patterns`, rule.patterns, "an array of RegExp");
  }
  const prefixes = listOf(option, "prefixes", rule.prefixes).map(toBuffer);
  const globs = listOf(option, "globs", rule.globs).map(toBuffer);
  const patterns = (rule.patterns ?? []).map((pattern) => {
    if (!(pattern instanceof RegExp)) {
      throw new InvalidOptionError(`${option}.patterns`, pattern, "regular expressions");
    }
    // With flags g and y, a RegExp would keep state between tests.
    return new RegExp(pattern.source, pattern.flags.replace(/[gy]/g, ""));
  });
  return (key) => {
    if (prefixes.some((prefix) => beginsWith(key, prefix))) return true;
    if (globs.some((glob) => matchesGlob(glob, key))) return true;
    if (patterns.length === 0) return false;
    const text = key.toString();
    return patterns.some((pattern) => pattern.test(text));
  };
}

/** Throws InvalidOptionError unless the value is an object with these fields only. A misspelt field has no effect. */
export function requireFields(option: string, value: unknown, fields: readonly string[]): void {
  const allowed = `an object with any of ${fields.join(", ")}`;
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new InvalidOptionError(option, value, allowed);
  }
  for (const [field, given] of Object.entries(value)) {
    if (!fields.includes(field)) {
      throw new InvalidOptionError(
        `${option}.${field}`,
        given,
        `left out: ${option} is ${allowed}`,
      );
    }
  }
}

function listOf(
  option: string,
  name: string,
  values: readonly (string | Buffer)[] | undefined,
): readonly (string | Buffer)[] {
  const valid =
    values === undefined ||
    (Array.isArray(values) && values.every((v) => typeof v === "string" || Buffer.isBuffer(v)));
  if (!valid)
    throw new InvalidOptionError(`${option}.${name}`, values, "an array of strings or Buffers");
  return values ?? [];
}

/** Whether the key begins with these bytes. */
export function beginsWith(key: Buffer, prefix: Buffer): boolean {
  return (
    key.length >= prefix.length && key.compare(prefix, 0, prefix.length, 0, prefix.length) === 0
  );
}

function toBuffer(text: string | Buffer): Buffer {
  return typeof text === "string" ? Buffer.from(text) : text;
}
