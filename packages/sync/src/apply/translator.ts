/**
 * From a command of the source to the commands of the target: what is dropped, what is refused, and what is
 * changed. Without options the bytes of a command are passed on as they came.
 */
import { CommandRefusedError } from "../errors.ts";
import { isOwnKey } from "../keys.ts";
import type { WireCommand } from "../resp/command-reader.ts";
import type { Transaction } from "../sink/transaction.ts";
import type { StreamNote, Translate } from "./applier.ts";

/** What happens with commands that concern more than keys. */
export interface Policies {
  readonly flush: "apply" | "drop" | "stop";
  readonly swapDb: "apply" | "drop" | "stop";
  readonly functions: "apply" | "drop" | "stop";
  readonly publish: "apply" | "drop" | "stop";
}

/** Commands that servers and providers send to replicas for themselves. */
const NOISE = new Set(["PING", "REPLCONF", "OPINFO", "CLUSTER", "SELECT"]);

const POLICY: Readonly<Record<string, keyof Policies>> = {
  FLUSHALL: "flush",
  FLUSHDB: "flush",
  SWAPDB: "swapDb",
  FUNCTION: "functions",
  PUBLISH: "publish",
  SPUBLISH: "publish",
};

/** See above. */
export class Translator implements Translate {
  readonly #policies: Policies;
  readonly #ownKeys: readonly string[];

  /** `ownKeys` are the keys of the task that must survive a SWAPDB. */
  constructor(policies: Policies, ownKeys: readonly string[]) {
    this.#policies = policies;
    this.#ownKeys = ownKeys;
  }

  command(command: WireCommand, db: number, into: Transaction<StreamNote>): void {
    const { argv } = command;
    const name = (argv[0] as Buffer).toString("latin1").toUpperCase();
    if (NOISE.has(name)) return;
    const policy = POLICY[name];
    if (policy !== undefined && !this.#permits(policy, name, argv)) return;
    if (argv[1] !== undefined && policy === undefined && isOwnKey(argv[1])) return;
    into.select(db);
    if (name === "RESTORE-ASKING") {
      const restore = [RESTORE, ...argv.slice(1)];
      into.command(restore, { argv: restore, db });
      return;
    }
    into.raw(command.raw, { argv, db });
    if (name === "SWAPDB") this.#afterSwap(argv, into);
  }

  #permits(policy: keyof Policies, name: string, argv: readonly Buffer[]): boolean {
    if (policy === "publish" && argv[1]?.toString() === "__sentinel__:hello") return false;
    const choice = this.#policies[policy];
    if (choice === "stop") {
      throw new CommandRefusedError(
        name,
        `the option ${policy} is "stop". Choose "apply" or "drop" and start again; the task resumes before this command`,
      );
    }
    return choice === "apply";
  }

  /** A swap moves our own keys from database 0; the transaction writes the checkpoint there again. */
  #afterSwap(argv: readonly Buffer[], into: Transaction<StreamNote>): void {
    const [a, b] = [Number(argv[1]), Number(argv[2])];
    if (a === b || (a !== 0 && b !== 0)) return;
    const other = a === 0 ? b : a;
    into.select(other);
    const del = ["DEL", ...this.#ownKeys].map((word) => Buffer.from(word));
    into.command(del, { argv: del, db: other });
  }
}

const RESTORE = Buffer.from("RESTORE");
