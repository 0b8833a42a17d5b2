/**
 * Key names of the kit. The documented Python programs use bare keys (`lock:market:`), so there is no
 * prefix by default; with the prefix "shop" the same key is `shop:lock:market:`.
 *
 * A unit of atomicity has one documented key and some of ours beside it. Cluster must put all of them
 * on one slot, and it hashes either the whole key or the part between braces. So a key of ours carries
 * the documented key as its hash tag:
 *
 *   lock:market:                     hashed as a whole
 *   lock-queue:{lock:market:}        hashed by its tag, which is the same string
 *
 * If the documented key has a tag of its own (in the prefix or the name), ours has the same one:
 *
 *   {shop}:lock:market:              {shop}:lock-queue:market:
 *
 * A name can be the tag of another key: `{lock:market:}`. Its keys have one colon more, or both locks would
 * have one queue:
 *
 *   lock:{lock:market:}              lock-queue:{lock:market:}:
 */
import { InvalidNameError, InvalidOptionError, type Redis } from "@ropeway/core";
import { checkPrefix, hashTag, type OptionSpec, slotOf } from "@ropeway/core/internal";

const MAX_NAME_BYTES = 1_024;

/** The `prefix` option of every part. */
export const prefixSpec: OptionSpec<string> = {
  default: "",
  rule: {
    allowed: 'a string, with braces only around a hash tag, as in "{shop}"',
    accepts: (value): value is string => typeof value === "string" && prefixIsValid(value),
  },
};

function prefixIsValid(prefix: string): boolean {
  if (prefix === "") return true;
  try {
    checkPrefix(prefix);
    return isWellFormed(prefix);
  } catch {
    return false;
  }
}

/** What every key under a prefix begins with. */
export function headOf(prefix: string): string {
  return prefix === "" ? "" : `${prefix}:`;
}

/** What a key consists of. */
export interface KeyParts {
  readonly head: string;
  readonly family: string;
  readonly name: string;
}

/** Whether a string has no lone surrogates; two names with some would become the same key. */
export function isWellFormed(value: string): boolean {
  return !/\p{Surrogate}/u.test(value);
}

/** A key of ours on the slot of `main`, which is `head`, a family and `name`. */
export function beside(main: string, { head, family, name }: KeyParts): string {
  if (hashTag(main) === undefined) return `${head}${family}:{${main}}`;
  const documented = main.slice(0, main.length - name.length);
  const another = name.startsWith(`{${documented}`) && /\}:*$/.test(name);
  return `${head}${family}:${name}${another ? ":" : ""}`;
}

/** Whether a name is a usable key. */
export function isName(name: unknown): name is string {
  return (
    typeof name === "string" &&
    name.length > 0 &&
    isWellFormed(name) &&
    Buffer.byteLength(name) <= MAX_NAME_BYTES
  );
}

/** Throws InvalidNameError for a name that cannot be a key. */
export function checkName(what: string, name: unknown): asserts name is string {
  if (!isName(name)) {
    throw new InvalidNameError(what, name, `a Unicode string of 1 to ${MAX_NAME_BYTES} bytes`);
  }
}

/** How the keys of the parts begin, behind the prefix; those of semaphores and files are names as they are. */
const PART_KEY =
  /^(lock|chat|ids|msgs|seen|mailbox|recent|members|kit-wake|(lock|chat|mailbox|members|file)-[a-z0-9]+):/;

/** Whether a name that is used as a key could be a key of another part. */
export function isPartKey(name: string): boolean {
  return PART_KEY.test(name);
}

/** Refuses keys of one unit that Cluster would put on different slots. */
export function checkSlots(redis: Redis, keys: readonly string[]): void {
  if (redis.topology !== "cluster") return;
  const slots = new Set(keys.map(slotOf));
  if (slots.size > 1) {
    throw new InvalidOptionError(
      "prefix",
      keys[0],
      'a string with a hash tag such as "{shop}": on Redis Cluster these keys belong on one slot',
    );
  }
}
