/**
 * A large value, built under a temporary name in the same Cluster slot and renamed when it is complete, so
 * that readers of the target see the old value or the new one and never an incomplete one. Takes the memory of
 * both for a while.
 *
 *   begin    DEL temporary
 *   part     RPUSH temporary ..., any number of times
 *   end      RENAME temporary key, PEXPIREAT key. To keep an existing key: PEXPIREAT temporary, RENAMENX temporary key
 *
 * A run that crashes in between leaves the temporary key. Its name begins with `ropeway:tmp:`.
 */
import { hashTag } from "@ropeway/core/internal";
import { keySlot } from "../command/slot.ts";
import { supports, type TargetServer } from "../command/target.ts";
import type { Argument } from "../resp/writer.ts";
import { type CommandOptions, ValueCommands } from "./commands.ts";
import type { ValuePart } from "./part.ts";

/** The prefix of temporary keys. */
export const TEMPORARY_PREFIX = "ropeway:tmp:";

/** How a large value is written. */
export interface BigKeyOptions extends CommandOptions {
  readonly target: TargetServer;
  /** Distinguishes runs, so that two of them cannot build the same temporary key. */
  readonly token: string;
  /** -1 if the key does not expire. */
  readonly expiresAtMs: number;
  /** Keep an existing key instead of replacing it. @default false */
  readonly keep?: boolean;
}

export class BigKey {
  readonly #key: Buffer;
  readonly #options: BigKeyOptions;
  readonly #commands: ValueCommands;
  /** The name under which the value is built. */
  readonly temporary: Buffer;

  constructor(key: Buffer, options: BigKeyOptions) {
    this.#key = key;
    this.#options = options;
    this.temporary = temporaryKey(key, options.token);
    this.#commands = new ValueCommands(this.temporary, options.target, options);
  }

  begin(): Argument[][] {
    const free = supports(this.#options.target, "unlink") ? "UNLINK" : "DEL";
    return [[free, this.temporary]];
  }

  part(part: ValuePart): Argument[][] {
    return this.#commands.of(part);
  }

  /** Commands to be applied in one transaction. */
  end(): Argument[][] {
    const { expiresAtMs, keep, target } = this.#options;
    const commands: Argument[][] = [];
    const expires = expiresAtMs >= 0;
    if (keep) {
      if (expires) commands.push(["PEXPIREAT", this.temporary, expiresAtMs]);
      commands.push(["RENAMENX", this.temporary, this.#key]);
      commands.push([supports(target, "unlink") ? "UNLINK" : "DEL", this.temporary]);
    } else {
      commands.push(["RENAME", this.temporary, this.#key]);
      // Only now, because RENAME fails if the value has expired while it was built.
      if (expires) commands.push(["PEXPIREAT", this.#key, expiresAtMs]);
    }
    return commands;
  }

  /** The commands that remove an incomplete value. */
  abandon(): Argument[][] {
    return this.begin();
  }
}

/** A name for building `key` in the same slot. */
export function temporaryKey(key: Buffer, token: string): Buffer {
  // latin1 maps every byte to one character and back.
  const text = key.toString("latin1");
  const tag = hashTag(text) ?? text;
  if (tag !== "" && !tag.includes("}")) {
    return Buffer.from(`${TEMPORARY_PREFIX}{${tag}}:${token}`, "latin1");
  }
  // The key cannot be a tag itself, so a number whose slot is the same is searched for.
  const slot = keySlot(key);
  for (let n = 0; ; n++) {
    const name = Buffer.from(`${TEMPORARY_PREFIX}{${n}}:${token}`);
    if (keySlot(name) === slot) return name;
  }
}
