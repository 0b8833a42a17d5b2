/** A transaction as store-txn.lua wants it; the order of KEYS and ARGV is described there. */
import type { Compare, Operation, Transaction } from "../store.ts";
import type { RedisStoreKeys } from "./keys.ts";

/** What the script is called with, and the paths of its `get` operations in both cases. */
export interface TransactionArguments {
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** Numbers paths and leases, and writes the three lists. */
export function transactionArguments(
  names: RedisStoreKeys,
  transaction: Transaction,
  options: { readonly history: number; readonly newId: string },
): TransactionArguments {
  const { if: compares = [], do: operations, else: otherwise = [], evenIfFull } = transaction;
  const paths = new Numbering();
  const leases = new Numbering();
  const lists = [
    String(compares.length),
    ...compares.flatMap((compare) => compareWords(paths, compare)),
    ...operationWords(operations, paths, leases),
    ...operationWords(otherwise, paths, leases),
  ];
  return {
    keys: [
      names.state,
      names.index,
      names.meta,
      names.log,
      names.leases,
      names.held,
      ...paths.all.map((path) => names.value(path)),
    ],
    args: [
      String(options.history),
      options.newId,
      evenIfFull === true ? "1" : "0",
      String(paths.all.length),
      ...paths.all,
      String(leases.all.length),
      ...leases.all,
      ...lists,
    ],
  };
}

function compareWords(paths: Numbering, { key, target, is, than }: Compare): string[] {
  return [paths.numberOf(key), target, is, String(than)];
}

function operationWords(list: readonly Operation[], paths: Numbering, leases: Numbering): string[] {
  const words = [String(list.length)];
  for (const operation of list) {
    const value = operation.op === "put" ? operation.value : "";
    const lease = operation.op === "put" ? operation.lease : undefined;
    words.push(operation.op, paths.numberOf(operation.key), value);
    words.push(lease === undefined ? "0" : leases.numberOf(lease));
  }
  return words;
}

/** Gives each text its number, from 1. */
class Numbering {
  readonly #numbers = new Map<string, number>();

  get all(): string[] {
    return [...this.#numbers.keys()];
  }

  numberOf(text: string): string {
    const known = this.#numbers.get(text) ?? this.#numbers.size + 1;
    this.#numbers.set(text, known);
    return String(known);
  }
}
