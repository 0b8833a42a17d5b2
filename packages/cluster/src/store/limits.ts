/** What both stores refuse before anything is sent, so that a program that runs on one runs on the other. */
import { InvalidArgumentError } from "@ropeway/core";
import type { Operation, RangeOptions, Transaction } from "./store.ts";

/** etcd's default for one transaction. */
export const MAX_OPERATIONS = 128;
/** A little under etcd's default request limit of 1.5 MiB. */
export const MAX_VALUE_BYTES = 1_000_000;
/** The maximum size of all keys and values of one transaction, for the same reason. */
export const MAX_TRANSACTION_BYTES = 1_400_000;
export const MAX_KEY_BYTES = 1_024;
export const MAX_RANGE = 1_000;

/** Whether a key is a path that a store takes. */
export function isKey(key: string): boolean {
  return (
    typeof key === "string" &&
    key.startsWith("/") &&
    Buffer.byteLength(key) <= MAX_KEY_BYTES &&
    wellFormed(key) &&
    !key.includes("\0")
  );
}

/** Throws for a key that is not a path. */
export function checkKey(key: string): void {
  if (!isKey(key)) {
    throw new InvalidArgumentError("key", key, `a path of at most ${MAX_KEY_BYTES} bytes`);
  }
}

/** Refuses a prefix that could also match the neighbour of what is meant: /node/1 and /node/10. */
export function checkPrefixPath(prefix: string): void {
  checkKey(prefix);
  if (!prefix.endsWith("/")) {
    throw new InvalidArgumentError("prefix", prefix, 'a path that ends with "/"');
  }
}

/** Refuses a value that etcd would refuse. */
export function checkValue(value: string): void {
  const usable =
    typeof value === "string" && wellFormed(value) && Buffer.byteLength(value) <= MAX_VALUE_BYTES;
  if (!usable) {
    throw new InvalidArgumentError("value", value, `text of at most ${MAX_VALUE_BYTES} bytes`);
  }
}

/** The number of entries to read. */
export function limitOf({ limit = MAX_RANGE }: RangeOptions): number {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_RANGE) {
    throw new InvalidArgumentError("limit", limit, `a whole number from 1 to ${MAX_RANGE}`);
  }
  return limit;
}

/** Refuses a transaction that one of the stores could not carry out. */
export function checkTransaction({
  if: compares = [],
  do: operations,
  else: otherwise = [],
}: Transaction): void {
  for (const { key } of compares) checkKey(key);
  for (const [name, list] of Object.entries({
    if: compares,
    do: operations,
    else: otherwise,
  })) {
    if (list.length > MAX_OPERATIONS) {
      const allowed = `at most ${MAX_OPERATIONS} operations`;
      throw new InvalidArgumentError(`transaction.${name}.length`, list.length, allowed);
    }
  }
  const bytes = checkOperations(operations) + checkOperations(otherwise);
  if (bytes > MAX_TRANSACTION_BYTES) {
    const allowed = `at most ${MAX_TRANSACTION_BYTES} bytes of keys and values`;
    throw new InvalidArgumentError("transaction.bytes", bytes, allowed);
  }
}

/** Their bytes. */
function checkOperations(operations: readonly Operation[]): number {
  const changed = new Set<string>();
  let bytes = 0;
  for (const operation of operations) {
    checkKey(operation.key);
    bytes += Buffer.byteLength(operation.key);
    if (operation.op === "put") {
      checkValue(operation.value);
      bytes += Buffer.byteLength(operation.value);
    }
    if (operation.op === "get") continue;
    if (changed.has(operation.key)) {
      throw new InvalidArgumentError("key", operation.key, "changed only once in a transaction");
    }
    changed.add(operation.key);
  }
  return bytes;
}

/** The end of the range of all keys with a prefix: its last byte plus one. */
export function endOfPrefix(prefix: string): string {
  // Prefixes end with "/" (0x2f), so the next character is always "0" and no byte overflows.
  return `${prefix.slice(0, -1)}0`;
}

/** Whether a string can be written in UTF-8 and read back: it has no lone surrogate. */
function wellFormed(text: string): boolean {
  return !/\p{Surrogate}/u.test(text);
}

/** How long close() waits for calls to the store, which may be unreachable. */
export const CLOSE_WITHIN_MS = 1_000;
