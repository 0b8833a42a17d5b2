/**
 * Reads keys of a server for comparison: a digest that does not depend on encoding or version, and the
 * absolute expiry. The read is one transaction, together with the replication offset at which it happened.
 */

import { type DumpedValue, readDump } from "../dump/payload.ts";
import { isOwnKey } from "../keys.ts";
import { ErrorReply, type Reply } from "../resp/reply-reader.ts";
import { type Argument, RespWriter } from "../resp/writer.ts";
import { decodeValue } from "../value/decode.ts";
import { digestOf } from "../value/digest.ts";
import { shiftedParts } from "../value/shift-fields.ts";
import type { Connection } from "../wire/connection.ts";

/** A key at one moment. */
export interface KeyState {
  /** undefined if the key does not exist. */
  readonly digest: string | undefined;
  /** Absolute, in ms; -1 if the key does not expire. */
  readonly expiresAtMs: number;
  /** The value itself, for a repair. */
  readonly value: DumpedValue | undefined;
}

/** Keys read at one moment. */
export interface ReadKeys {
  readonly states: readonly KeyState[];
  /** The server's replication offset at that moment; undefined if it does not report one. */
  readonly offset: number | undefined;
  /** The total size of the values. */
  readonly bytes: number;
}

/** Keys of one database. */
export interface KeyPage {
  readonly db: number;
  readonly keys: readonly Buffer[];
}

/** The server or cluster that keys are read from. */
export interface KeySource {
  /** Databases that have keys. */
  dbs(): Promise<number[]>;
  /** All keys of a database except keys of tasks, page by page. A key may come twice, as with SCAN. */
  scan(db: number, count: number): AsyncGenerator<KeyPage, void>;
  /** Reads keys at one moment. */
  read(db: number, keys: readonly Buffer[]): Promise<ReadKeys>;
  /** Which of the keys exist. */
  exist(db: number, keys: readonly Buffer[]): Promise<boolean[]>;
}

const ABSENT: KeyState = { digest: undefined, expiresAtMs: -1, value: undefined };

/** Reads keys of one server for comparison. */
export class KeyReader implements KeySource {
  readonly connection: Connection;
  readonly #ttlShiftMs: number;

  /** `ttlShiftMs` is added to every expiry that is read. */
  constructor(connection: Connection, ttlShiftMs = 0) {
    this.connection = connection;
    this.#ttlShiftMs = ttlShiftMs;
  }

  /** Databases that have keys. */
  async dbs(): Promise<number[]> {
    const info = String(await this.connection.call("INFO", "keyspace"));
    return [...info.matchAll(/^db(\d+):keys=/gm)].map(([, db]) => Number(db));
  }

  /** All keys of a database except keys of tasks, page by page. A key may come twice, as with SCAN. */
  async *scan(db: number, count: number): AsyncGenerator<KeyPage, void> {
    let cursor = "0";
    do {
      await this.connection.call("SELECT", db);
      const reply = await this.connection.call<readonly [Buffer, readonly Buffer[]]>(
        "SCAN",
        cursor,
        "COUNT",
        count,
      );
      cursor = String(reply[0]);
      const keys = reply[1].filter((key) => !isOwnKey(key));
      if (keys.length > 0) yield { db, keys };
    } while (cursor !== "0");
  }

  /** Reads keys at one moment. */
  async read(db: number, keys: readonly Buffer[]): Promise<ReadKeys> {
    const inside: Argument[][] = [["TIME"], ["INFO", "replication"]];
    for (const key of keys) inside.push(["DUMP", key], ["PTTL", key]);
    const commands: Argument[][] = [["SELECT", db], ["MULTI"], ...inside, ["EXEC"]];
    const replies = await this.#exchange(commands);
    const executed = replies.at(-1);
    if (!Array.isArray(executed)) {
      const reason =
        executed instanceof ErrorReply ? executed.message : "the transaction was discarded";
      throw new Error(`${this.connection.where} cannot be read: ${reason}`);
    }
    const [time, info, ...values] = executed as Reply[];
    const [seconds, micros] = time as readonly Reply[];
    const now = Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000);
    const offset = /^master_repl_offset:(\d+)/m.exec(String(info))?.[1];
    const shiftMs = this.#ttlShiftMs;
    let bytes = 0;
    const states = keys.map((_, index) => {
      const dump = values[2 * index];
      if (!Buffer.isBuffer(dump)) return ABSENT;
      bytes += dump.length;
      const value = readDump(dump);
      const ttl = Number(values[2 * index + 1]);
      const expiresAtMs = ttl < 0 ? -1 : Math.max(1, now + ttl + shiftMs);
      const parts = shiftedParts(decodeValue(value), shiftMs);
      return { digest: digestOf(parts), expiresAtMs, value };
    });
    return { states, offset: offset === undefined ? undefined : Number(offset), bytes };
  }

  /** Which of the keys exist. */
  async exist(db: number, keys: readonly Buffer[]): Promise<boolean[]> {
    const replies = await this.#exchange([["SELECT", db], ...keys.map((key) => ["EXISTS", key])]);
    return keys.map((_, index) => Number(replies[index + 1]) === 1);
  }

  #exchange(commands: readonly (readonly Argument[])[]): Promise<Reply[]> {
    const writer = new RespWriter();
    for (const command of commands) writer.command(command);
    return this.connection.exchange(writer.take(), commands.length);
  }
}
