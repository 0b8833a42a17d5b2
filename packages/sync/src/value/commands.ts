/**
 * A value as commands: the slow path, for values that the target cannot RESTORE or that would block it. Each
 * part becomes one command or a few, so the size of commands is bounded as well.
 *
 *   string   SET, then APPEND           set    SADD               hash    HSET, HPEXPIREAT
 *   list     RPUSH                      zset   ZADD
 *   stream   XADD per entry, XSETID, XGROUP CREATE, CREATECONSUMER, XCLAIM per pending entry
 *
 * The commands build a key that must not exist. `BigKey` uses them with a temporary name.
 */
import { supports, type TargetServer } from "../command/target.ts";
import { NotExpressibleError } from "../errors.ts";
import type { Argument } from "../resp/writer.ts";
import type { HashPart, ValuePart } from "./part.ts";
import { StreamCommands } from "./stream-commands.ts";

/** How to handle values that the target cannot hold. */
export interface CommandOptions {
  /** Write hash fields without their expiry if the target does not support it, instead of failing. @default false */
  readonly dropFieldExpiry?: boolean;
}

/** Turns the parts of one value into commands. */
export class ValueCommands {
  readonly #key: Buffer;
  readonly #target: TargetServer;
  readonly #options: CommandOptions;
  #stream: StreamCommands | undefined;
  #begun = false;

  constructor(key: Buffer, target: TargetServer, options: CommandOptions = {}) {
    this.#key = key;
    this.#target = target;
    this.#options = options;
  }

  /** The commands for the next part. Throws NotExpressibleError. */
  of(part: ValuePart): Argument[][] {
    const key = this.#key;
    switch (part.type) {
      case "string": {
        const command = this.#begun ? "APPEND" : "SET";
        this.#begun = true;
        return [[command, key, part.bytes]];
      }
      case "list":
        return [["RPUSH", key, ...part.elements]];
      case "set":
        return [["SADD", key, ...part.members]];
      case "zset":
        return [["ZADD", key, ...part.members.flatMap((m, i) => [scoreText(part.scores[i]), m])]];
      case "hash":
        return this.#hash(part);
      case "stream":
        this.#stream ??= new StreamCommands(key, this.#target);
        return this.#stream.of(part);
      case "array":
        throw new NotExpressibleError("array", "only RESTORE can write it");
      case "module":
        throw new NotExpressibleError(part.module, "only RESTORE can write a module's value");
    }
  }

  #hash({ fields, values, expiresAtMs }: HashPart): Argument[][] {
    const name = supports(this.#target, "multiPairHset") ? "HSET" : "HMSET";
    const set: Argument[] = [name, this.#key];
    fields.forEach((field, i) => {
      set.push(field, values[i] as Buffer);
    });
    if (expiresAtMs === undefined) return [set];
    if (!supports(this.#target, "fieldExpiry")) {
      if (this.#options.dropFieldExpiry) return [set];
      throw new NotExpressibleError("hash", "the target has no expiry of hash fields");
    }
    return [set, ...this.#expiries(fields, expiresAtMs)];
  }

  /** One HPEXPIREAT per time, because fields that were set together often expire together. */
  #expiries(fields: readonly Buffer[], expiresAtMs: readonly number[]): Argument[][] {
    const moments = new Map<number, Buffer[]>();
    fields.forEach((field, i) => {
      const at = expiresAtMs[i] as number;
      if (at <= 0) return;
      const together = moments.get(at);
      if (together === undefined) moments.set(at, [field]);
      else together.push(field);
    });
    return Array.from(moments, ([at, names]) => [
      "HPEXPIREAT",
      this.#key,
      at,
      "FIELDS",
      names.length,
      ...names,
    ]);
  }
}

/** A score in a form that ZADD parses to the same double. */
function scoreText(score: number | undefined): string {
  if (score === Number.POSITIVE_INFINITY) return "+inf";
  if (score === Number.NEGATIVE_INFINITY) return "-inf";
  return Object.is(score, -0) ? "-0" : String(score);
}

/** All commands for a whole value. */
export function* commandsOf(
  commands: ValueCommands,
  parts: Iterable<ValuePart>,
): Generator<Argument[], void> {
  for (const part of parts) yield* commands.of(part);
}
