/** Reads keys again from the source, as commands that write them, for commands that a cluster cannot run. */
import { ConnectionLostError } from "@ropeway/core";
import { dumpPayload } from "../dump/payload.ts";
import { CommandRefusedError } from "../errors.ts";
import type { Mapping } from "../mapping.ts";
import type { Source } from "../source/source.ts";
import { KeyReader, type KeyState } from "../verify/key-reader.ts";
import type { Connection } from "../wire/connection.ts";
import type { Reread } from "./cluster-stream.ts";

/** Reads keys of one shard of the source; keeps its connection. */
export class Rereader {
  readonly #source: Source;
  readonly #mapping: Mapping;
  readonly #ttlShiftMs: number;
  #connection: Connection | undefined;

  constructor(source: Source, mapping: Mapping, ttlShiftMs: number) {
    this.#ttlShiftMs = ttlShiftMs;
    this.#source = source;
    this.#mapping = mapping;
  }

  /** The current values of the keys, and their offset. */
  async read(keys: readonly Buffer[]): Promise<Reread> {
    const mapping = this.#mapping;
    if (mapping.renames) {
      throw new CommandRefusedError("a command with keys in different slots", "keys are renamed");
    }
    const db = mapping.dbs?.find((each) => mapping.db(each) === 0) ?? 0;
    const { states, offset = 0 } = await this.#read(db, keys);
    const writes = new Map<Buffer, readonly (readonly Buffer[])[]>();
    keys.forEach((key, at) => {
      writes.set(key, [writeOf(key, states[at] as KeyState)]);
    });
    return { offset, writes };
  }

  close(): void {
    this.#connection?.destroy();
    this.#connection = undefined;
  }

  async #read(db: number, keys: readonly Buffer[]): ReturnType<KeyReader["read"]> {
    for (let attempt = 1; ; attempt++) {
      if (!this.#connection?.alive) this.#connection = await this.#source.connect();
      if (this.#connection === undefined) {
        const reason = "the source is no server, so its keys cannot be read again";
        throw new CommandRefusedError("a command with keys in different slots", reason);
      }
      try {
        return await new KeyReader(this.#connection, this.#ttlShiftMs).read(db, keys);
      } catch (error) {
        if (!(error instanceof ConnectionLostError) || attempt > 5) throw error;
      }
    }
  }
}

function writeOf(key: Buffer, { value, expiresAtMs }: KeyState): Buffer[] {
  if (value === undefined) return [Buffer.from("DEL"), key];
  const ttl = Buffer.from(String(Math.max(0, expiresAtMs)));
  const [restore, replace, absolute] = ["RESTORE", "REPLACE", "ABSTTL"].map((word) =>
    Buffer.from(word),
  );
  return [restore as Buffer, key, ttl, dumpPayload(value), replace as Buffer, absolute as Buffer];
}
