/** All Redis traffic of file distribution. */
import { InvalidArgumentError, isReply, type Redis, type Reply } from "@ropeway/core";
import { roomKeys, seenKey } from "../chat/keys.ts";
import { checkName, checkSlots } from "../keyspace.ts";
import { refused } from "../store/refused.ts";
import { storedInteger } from "../store/stored-integer.ts";
import { type WakeList, wakeListOf } from "../store/wake-list.ts";
import { contentKey, doneKey, namedKey, type TransferKeys, transferKeys } from "./keys.ts";
import type { FilesOptions } from "./options.ts";
import {
  abandonScript,
  announcedScript,
  beginScript,
  doneScript,
  finishScript,
  putScript,
  takeScript,
} from "./scripts.ts";

/** A transfer as its sender finds it. */
export interface Begun {
  readonly next: number;
  /** All chunks were sent before. */
  readonly sent: boolean;
  readonly announced: boolean;
  readonly chunkBytes: number;
  /** Of all chunks before `next`, in hex; "" if it is not known. */
  readonly sentSha256: string;
}

/** What a sender's step did. */
export interface Put {
  readonly status: "taken" | "full" | "finished" | "unknown" | "lost" | "changed";
  readonly left: number;
  readonly dropped: number;
}

/** What a receiver's step got. */
export type Taken =
  | { readonly status: "chunk"; readonly index: number; readonly data: Buffer }
  | { readonly status: "wait"; readonly index: number }
  | {
      readonly status: "end";
      readonly index: number;
      readonly sha256: string;
      readonly size: number;
    }
  | { readonly status: "gone" }
  | { readonly status: "dropped" };

/** A transfer as an operator sees it. */
export interface TransferView {
  readonly id: string;
  readonly channel: string;
  readonly name: string;
  /** Chunks sent so far. */
  readonly sent: number;
  /** Bytes in all; undefined while the sender does not know. */
  readonly size: number | undefined;
  readonly chunkBytes: number;
  readonly receivers: readonly { readonly receiver: string; readonly chunks: number }[];
  readonly dropped: number;
  /** When it began, ms since the epoch. */
  readonly since: number;
}

/** The first arguments of put.lua. */
type Step = readonly [
  verb: string,
  index: number,
  data: string | Buffer,
  bound: number,
  sentSha256: string,
];

/** The end of the year 9999: later times have no ordinary ISO string. */
const LAST_TIME_MS = 253_402_300_799_999;

const PUT = ["taken", "full", "finished", "unknown", "lost", "changed"] as const;

/** One channel in Redis. */
export class FilesStore {
  readonly redis: Redis;
  readonly wakes: WakeList;
  readonly #channel: string;
  readonly #options: Required<FilesOptions>;

  constructor(redis: Redis, channel: string, options: Required<FilesOptions>) {
    checkName("the channel", channel);
    this.redis = redis;
    this.#channel = channel;
    this.#options = options;
    this.wakes = wakeListOf(redis, options.prefix);
    checkSlots(redis, [...this.#keys("x").all, seenKey(options.prefix, "x")]);
  }

  /** Starts or finds a transfer. Throws InvalidArgumentError if the one that it finds has other receivers. */
  async begin(
    id: string,
    { name, receivers }: { name: string; receivers: readonly string[] },
  ): Promise<Begun> {
    const { meta, acks, leases } = this.#keys(id);
    const { leaseMs, keepMs } = this.#options;
    const args = [name, this.#options.chunkBytes, leaseMs, keepMs, ...receivers];
    const running = this.redis.run(beginScript, [meta, acks, leases], args);
    const reply = await refused({ what: "a transfer", key: meta }, running);
    if (reply.length === 0) {
      const allowed = `those that transfer ${JSON.stringify(id)} was begun with`;
      throw new InvalidArgumentError("receivers", receivers, allowed);
    }
    const [next, sent, announced, chunkBytes, sentSha256] = reply;
    return {
      next: Number(next),
      sent: sent === 1,
      announced: announced === 1,
      chunkBytes: Number(chunkBytes),
      sentSha256: String(sentSha256),
    };
  }

  /** Records that the file was announced in the room, unless the data of the transfer is gone. */
  async announced(id: string): Promise<void> {
    const { meta } = this.#keys(id);
    const running = this.redis.run(announcedScript, [meta], []);
    await refused({ what: "a transfer", key: meta }, running);
  }

  /** Adds a chunk, unless there is no room for it, also when Redis itself has none. */
  async put(
    id: string,
    chunk: { index: number; data: Buffer; most: number; sentSha256: string },
    token: string,
  ): Promise<Put> {
    try {
      const { index, data, most, sentSha256 } = chunk;
      return await this.#put(id, ["chunk", index, data, most, sentSha256], token);
    } catch (error) {
      if (!isReply(error, "OOM")) throw error;
      const { left, dropped, status } = await this.look(id, token);
      return { left, dropped, status: status === "taken" ? "full" : status };
    }
  }

  /** Records that all chunks were sent. */
  end(
    id: string,
    file: { chunks: number; sha256: string; size: number },
    token: string,
  ): Promise<Put> {
    return this.#put(id, ["end", file.chunks, file.sha256, file.size, ""], token);
  }

  /** The same as look(), after the end was recorded. */
  await(id: string, token: string): Promise<Put> {
    return this.#put(id, ["await", 0, "", 0, ""], token);
  }

  /** Drops receivers whose lease ended; says how far the others are. */
  look(id: string, token: string): Promise<Put> {
    return this.#put(id, ["look", 0, "", 0, ""], token);
  }

  /**
   * Says which chunks a receiver has, and gets the next one. Without a token: only renews its lease. Keys of
   * another type are not a transfer: its announcement must not block the receiver for ever.
   */
  async take(id: string, receiver: string, step: { has: number; token?: string }): Promise<Taken> {
    const { leaseMs, keepMs } = this.#options;
    const wake = step.token === undefined ? "-" : `${this.wakes.key} ${step.token}`;
    const args = [receiver, step.has, leaseMs, keepMs, wake];
    const running = this.redis.run(takeScript, this.#keys(id).all, args);
    const reply = await this.#unlessWrongType(running, this.#keys(id).meta);
    if (reply === undefined) return { status: "gone" };
    const [status, index, data, list, token] = reply as readonly [
      number,
      number,
      Buffer,
      Buffer,
      Buffer,
    ];
    if (list.length > 0) this.wakes.deliver([{ list: String(list), message: String(token) }]);
    if (status === 0) return { status: "chunk", index, data };
    if (status === 1) return { status: "wait", index };
    if (status === 2) {
      const [sha256 = "", size] = String(data).split(" ");
      return { status: "end", index, sha256, size: Number(size) };
    }
    return { status: status === 3 ? "gone" : "dropped" };
  }

  /** Records that a receiver has a file, and moves its cursor past the announcement. */
  async finish(id: string, receiver: string, message: number): Promise<void> {
    const { prefix } = this.#options;
    const { members } = roomKeys(prefix, this.#channel);
    const keys = [...this.#keys(id).all, members, seenKey(prefix, receiver)];
    const args = [receiver, this.#channel, message];
    const [list, token] = await this.redis.run(finishScript, keys, args);
    if (list !== undefined) this.wakes.deliver([{ list, message: token as string }]);
  }

  /** Removes a transfer that nobody can resume, unless all of its chunks are there. */
  async abandon(id: string): Promise<void> {
    await this.redis.run(abandonScript, this.#keys(id).all, []);
  }

  /** A transfer that is under way. */
  async view(id: string): Promise<TransferView | undefined> {
    const { meta, acks } = this.#keys(id);
    const names = ["name", "next", "size", "chunkBytes", "dropped", "since", "done"];
    const [fields, flat] = await Promise.all([
      this.#ask<readonly (string | null)[]>("HMGET", meta, ...names),
      this.#ask<readonly string[]>("ZRANGE", acks, "0", "999", "WITHSCORES"),
    ]);
    const [name, next, size, chunkBytes, dropped, since, done] = fields;
    if (typeof name !== "string" || typeof done === "string") return undefined;
    const [sent, bytes, began] = [next, chunkBytes, since].map(storedInteger);
    if (sent === undefined || bytes === undefined || began === undefined) return undefined;
    if (began > LAST_TIME_MS) return undefined; // no transfer of ours
    const receivers: { receiver: string; chunks: number }[] = [];
    for (let i = 0; i + 1 < flat.length; i += 2) {
      receivers.push({ receiver: flat[i] as string, chunks: Math.trunc(Number(flat[i + 1])) });
    }
    if (!receivers.every(({ chunks }) => Number.isSafeInteger(chunks))) return undefined;
    return {
      id,
      channel: this.#channel,
      name,
      sent,
      size: storedInteger(size),
      chunkBytes: bytes,
      receivers,
      dropped: storedInteger(dropped) ?? 0,
      since: began,
    };
  }

  /** Adds to a file on the documented wire. */
  async append(name: string, block: Buffer): Promise<void> {
    const key = contentKey(this.#options.prefix, this.#channel, name);
    const appending = this.redis.send(["APPEND", key, block], { key });
    await Promise.all([refused({ what: "a file", key }, appending), this.keep(name)]);
  }

  /** Says who the receivers of a file on the documented wire are. Other members of the room are not counted. */
  async name(name: string, receivers: readonly string[]): Promise<void> {
    const key = namedKey(this.#options.prefix, this.#channel, name);
    const adding = this.redis.send(["SADD", key, ...receivers], { repeatable: true, key });
    await Promise.all([refused({ what: "a file", key }, adding), this.keep(name)]);
  }

  /** Keeps a file of the documented wire for `keepMs` from now, so that it is removed if its sender died. */
  async keep(name: string): Promise<void> {
    const { prefix, keepMs } = this.#options;
    const keys = [contentKey, doneKey, namedKey].map((key) => key(prefix, this.#channel, name));
    await Promise.all(keys.map((key) => this.#ask("PEXPIRE", key, String(keepMs))));
  }

  /** How many receivers are done with a file on the documented wire. */
  async doneCount(name: string): Promise<number> {
    const key = doneKey(this.#options.prefix, this.#channel, name);
    return Number((await this.#ask<string | null>("GET", key)) ?? 0);
  }

  /** Removes a file of the documented wire. */
  async discard(name: string): Promise<void> {
    const { prefix } = this.#options;
    const keys = [contentKey, doneKey, namedKey].map((key) => key(prefix, this.#channel, name));
    await this.#ask("UNLINK", ...keys);
  }

  /**
   * How large a file of the documented wire is; undefined if it was removed, or if its key is no string. An
   * empty one has a key.
   */
  async contentLength(name: string): Promise<number | undefined> {
    const key = contentKey(this.#options.prefix, this.#channel, name);
    const [length, exists] = await Promise.all([
      this.#unlessWrongType(this.#ask<number>("STRLEN", key), key),
      this.#ask<number>("EXISTS", key),
    ]);
    return exists === 1 ? length : undefined;
  }

  async contentRange(name: string, first: number, last: number): Promise<Buffer> {
    const key = contentKey(this.#options.prefix, this.#channel, name);
    const command = ["GETRANGE", key, String(first), String(last)];
    return this.redis.send<Reply & Buffer>(command, { repeatable: true, key, binary: true });
  }

  /** Counts a receiver on the documented wire and acknowledges the announcement, in one step. */
  async done(name: string, receiver: string, message: number): Promise<void> {
    const { prefix } = this.#options;
    const { members } = roomKeys(prefix, this.#channel);
    const key = [prefix, this.#channel, name] as const;
    const [done, content, named] = [doneKey(...key), contentKey(...key), namedKey(...key)];
    const keys = [done, members, seenKey(prefix, receiver), content, named];
    await this.redis.run(doneScript, keys, [this.#channel, receiver, message]);
  }

  async #put(id: string, step: Step, token: string): Promise<Put> {
    const args = [...step, this.#options.keepMs, `${this.wakes.key} ${token}`];
    const reply = await this.redis.run(putScript, this.#keys(id).all, args);
    const [status, left, dropped, , wakes] = reply as readonly [
      number,
      number,
      number,
      number,
      readonly string[],
    ];
    for (let i = 0; i + 1 < wakes.length; i += 2) {
      this.wakes.deliver([{ list: wakes[i] as string, message: wakes[i + 1] as string }]);
    }
    return { status: PUT[status] ?? "unknown", left, dropped };
  }

  /** A reply, or undefined and a warning if a key has another type. */
  async #unlessWrongType<T>(running: Promise<T>, key: string): Promise<T | undefined> {
    try {
      return await running;
    } catch (error) {
      if (!isReply(error, "WRONGTYPE")) throw error;
      this.redis.logger.warn({ err: error, key }, "what was announced as a file is none");
      return undefined;
    }
  }

  #keys(id: string): TransferKeys {
    return transferKeys(this.#options.prefix, this.#channel, id);
  }

  #ask<T extends Reply>(...command: string[]): Promise<T> {
    return this.redis.send<T>(command, { repeatable: true, key: this.#keys("x").meta });
  }
}
