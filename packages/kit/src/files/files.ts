/**
 * Distributes files to many receivers through Redis, with bounded memory. A channel is a chat room: its
 * messages announce files, its members are the receivers, and their cursors say which files they have.
 * The content goes in chunks (sender.ts, incoming-file.ts), or on the documented wire (documented.ts).
 */
import { basename } from "node:path";
import {
  AbortedError,
  InvalidArgumentError,
  InvalidNameError,
  LeaseLostError,
  type Page,
  type Redis,
} from "@ropeway/core";
import { newToken, requireRedis } from "@ropeway/core/internal";
import { checkName, isPartKey } from "../keyspace.ts";
import type { HeldLock } from "../lock/held-lock.ts";
import { Lock } from "../lock/lock.ts";
import { scanNames, viewsOf } from "../store/scan.ts";
import { announcementOf, END, readAnnouncement } from "./announcement.ts";
import { ChannelRoom } from "./channel-room.ts";
import { readDocumented, sendDocumented } from "./documented.ts";
import { CorruptFileError, TransferGoneError } from "./errors.ts";
import { type Announced, IncomingFile } from "./incoming-file.ts";
import { transferHead } from "./keys.ts";
import { contentOf, sizeOf } from "./local-file.ts";
import {
  type FilesOptions,
  type PublishOptions,
  type ReceiveOptions,
  resolveFilesOptions,
  resolvePublishOptions,
  resolveReceiveOptions,
  resolveTransfersOptions,
  type TransfersOptions,
} from "./options.ts";
import { keepingPlaces } from "./place-keeper.ts";
import type { ReceivedFile } from "./received-file.ts";
import { ChunksLostError, type Sent, sendFile } from "./sender.ts";
import { FilesStore, type TransferView } from "./store.ts";

/** What was published. */
export interface Published {
  readonly id: string;
  readonly name: string;
  readonly bytes: number;
  /** Of the whole file, in hex; "" on the documented wire. */
  readonly sha256: string;
  /** Receivers that were away too long, and did not get all of it. */
  readonly dropped: number;
}

/** What a receiver has done. */
export interface Received {
  readonly files: number;
  /** Files that ended before this receiver had all of them. */
  readonly missed: readonly string[];
}

/** How many announcements are read at once. */
const ANNOUNCEMENTS_AT_ONCE = 100;

/** One channel of files. */
export class Files {
  readonly channel: string;
  readonly #redis: Redis;
  readonly #options: Required<FilesOptions>;
  readonly #store: FilesStore;
  readonly #room: ChannelRoom;

  constructor(redis: Redis, channel: string, options?: FilesOptions) {
    requireRedis(redis);
    this.channel = channel;
    this.#redis = redis;
    this.#options = resolveFilesOptions(options);
    this.#store = new FilesStore(redis, channel, this.#options);
    this.#room = new ChannelRoom(redis, channel, this.#options.prefix);
  }

  /**
   * Sends a file, given as a path or a stream, and waits until every receiver has it or its lease ended.
   * Never keeps more than `limitBytes` of it in Redis.
   */
  async publish(
    source: string | AsyncIterable<Buffer>,
    options: PublishOptions,
  ): Promise<Published> {
    const how = resolvePublishOptions(options);
    if (typeof source !== "string" && typeof source?.[Symbol.asyncIterator] !== "function") {
      throw new InvalidArgumentError("source", source, "a path or an async iterable of Buffers");
    }
    const id = how.id ?? newToken();
    const name = how.name ?? (typeof source === "string" ? basename(source) : id);
    checkName("the name of the file", name);
    checkName("the id of the transfer", id);
    const total = typeof source === "string" ? await sizeOf(source) : undefined;
    if (how.wire === "documented" && name.endsWith(END)) {
      throw new InvalidArgumentError("name", name, `a name that does not end in "${END}"`);
    }
    if (how.wire === "documented" && isPartKey(`${this.channel}${name}`)) {
      const allowed = "a name that is no key of another part behind the name of the channel";
      throw new InvalidArgumentError("name", name, allowed);
    }
    if (how.wire === "chunks" && id.includes(":")) {
      throw new InvalidArgumentError("id", id, "a string without colons");
    }
    const content = () => (typeof source === "string" ? contentOf(source, total) : source);
    if (how.signal?.aborted) throw new AbortedError(`sending ${name}`, how.signal.reason);
    await this.#room.open(how.receivers);
    const sending = { ...how, id, name, total, content, readAgain: typeof source === "string" };
    try {
      const sent = await (how.wire === "documented"
        ? this.#documented(sending)
        : this.#chunked(sending, how.id !== undefined));
      return { id, name, ...sent };
    } catch (error) {
      if (how.id === undefined) this.#abandon(id);
      throw error;
    }
  }

  /**
   * Receives files one after the other, until the channel ends, `files` were received or the signal
   * aborts. A file counts as received when the handler has returned, and as missed if the handler throws
   * InvalidNameError for its name. After a CorruptFileError, the next call begins behind that file.
   */
  async receive(
    receiver: string,
    handler: (file: ReceivedFile) => unknown,
    options?: ReceiveOptions,
  ): Promise<Received> {
    checkName("the receiver", receiver);
    if (typeof handler !== "function") {
      throw new InvalidArgumentError("handler", handler, "a function");
    }
    const {
      files: most = Number.POSITIVE_INFINITY,
      signal,
      onProgress,
    } = resolveReceiveOptions(options);
    const own = new AbortController();
    const either = signal === undefined ? own.signal : AbortSignal.any([signal, own.signal]);
    const missed: string[] = [];
    let last = ""; // a sender that died may have announced a file twice: it is not missed then
    let files = 0;
    const receiving = { receiver, leaseMs: this.#options.leaseMs, onProgress, signal };
    for await (const event of this.#room.feed(receiver, either)) {
      if (event.type !== "message" || event.room !== this.channel) continue;
      const announced = readAnnouncement(event.message);
      const renew = () => this.#renewBehind(event.id, receiver);
      const places = { redis: this.#redis, leaseMs: this.#options.leaseMs, renew };
      if (announced.kind === "chunks") {
        const about = { ...announced, message: event.id };
        const got = await keepingPlaces(places, () =>
          this.#receiveChunks(about, receiving, handler).catch((error) =>
            this.#passCorrupt(about.name, error, () => this.#room.acknowledge(receiver, event)),
          ),
        );
        if (got) files += 1;
        else if (announced.id !== last) missed.push(announced.name);
        last = announced.id;
      } else if (announced.kind === "documented") {
        const about = { name: announced.name, message: event.id };
        const got = await keepingPlaces(places, () =>
          this.#receiveDocumented(about, receiving, handler),
        );
        if (got) files += 1;
        else missed.push(announced.name);
      } else if (announced.kind === "end" && (await this.#room.leaveAt(event, receiver))) {
        return { files, missed };
      }
      await this.#room.acknowledge(receiver, event);
      if (files >= most) break;
    }
    own.abort();
    return { files, missed };
  }

  /**
   * Ends the channel: receivers return when they have all files. The last receiver removes the room.
   * Returns false if there is no such channel: nothing was sent, or it has ended and all receivers have left.
   */
  end(): Promise<boolean> {
    return this.#room.end();
  }

  /** The transfers under way in all channels of the prefix, for operators. */
  static async transfers(redis: Redis, options?: TransfersOptions): Promise<Page<TransferView>> {
    requireRedis(redis);
    const { prefix, cursor, limit } = resolveTransfersOptions(options);
    const resolved = resolveFilesOptions({ prefix });
    const of = { before: transferHead(prefix), type: "hash" } as const;
    const { items, ...rest } = await scanNames(redis, of, { cursor, limit });
    const view = async (name: string) => {
      const colon = name.lastIndexOf(":");
      if (colon < 1) return undefined;
      return new FilesStore(redis, name.slice(0, colon), resolved).view(name.slice(colon + 1));
    };
    return { items: await viewsOf(items, view), ...rest };
  }

  /**
   * One sender per transfer: a second one waits, and then finds it done. A sender that was paused, and lost its
   * lock, goes on if it can read its source again. No lock if the id is `shared` with nobody.
   */
  async #chunked(file: Sending, shared: boolean): Promise<Sent> {
    if (!shared) return this.#sendChunks(file, new AbortController().signal);
    const { prefix } = this.#options;
    const name = `file:${this.channel}:${file.id}`;
    const lock = new Lock(this.#redis, name, { prefix, waitMs: null });
    for (;;) {
      try {
        const send = (held: HeldLock) => this.#sendChunks(file, held.signal);
        return await lock.run(send, { signal: file.signal });
      } catch (error) {
        if (!(error instanceof LeaseLostError) || !file.readAgain) throw error;
      }
    }
  }

  /** Sends a file until the signal `lost` aborts, because another sender may continue it. */
  async #sendChunks(file: Sending, lost: AbortSignal): Promise<Sent> {
    const { id, name, receivers, total, content, readAgain, onProgress } = file;
    const signal = file.signal ? AbortSignal.any([file.signal, lost]) : lost;
    for (;;) {
      const begun = await this.#store.begin(id, { name, receivers });
      const { next, sent, announced, chunkBytes, sentSha256 } = begun;
      if (!announced) {
        const message = announcementOf({ id, name, chunkBytes, size: total });
        await this.#room.announce(message, receivers);
        await this.#store.announced(id);
      }
      const from = { next: sent ? Number.POSITIVE_INFINITY : next, sentSha256 };
      const about = { id, name, total, onProgress, signal };
      const outgoing = { ...about, source: content(), ...from };
      try {
        return await sendFile(this.#store, outgoing, { ...this.#options, chunkBytes });
      } catch (error) {
        const aborted = error instanceof AbortedError && file.signal?.aborted !== true;
        if (aborted && lost.aborted) throw lost.reason;
        if (!(error instanceof ChunksLostError)) throw error;
        if (!readAgain) throw new TransferGoneError(id);
      }
    }
  }

  /** Nobody else knows the id of a failed transfer, so its receivers would wait for the rest until `keepMs`. */
  #abandon(id: string): void {
    this.#store.abandon(id).catch((error) => {
      const { logger } = this.#redis;
      logger.warn({ err: error, channel: this.channel, id }, "cannot abandon a transfer");
    });
  }

  #documented(file: Sending): Promise<Sent> {
    const { name, receivers, signal, content, ...rest } = file;
    const bound = signal ?? new AbortController().signal;
    const announce = () => this.#room.announce(name, receivers);
    return sendDocumented(
      this.#store,
      { ...rest, name, source: content(), announce, receivers, signal: bound },
      this.#options,
    );
  }

  /** Renews the lease of a receiver for the files that were announced after a message. */
  async #renewBehind(message: number, receiver: string): Promise<void> {
    for (let last = message; ; ) {
      const behind = await this.#room.after(last, ANNOUNCEMENTS_AT_ONCE);
      const announced = behind.map((one) => readAnnouncement(one.message));
      await Promise.all(
        announced.map(
          (one) => one.kind === "chunks" && this.#store.take(one.id, receiver, { has: 0 }),
        ),
      );
      if (behind.length < ANNOUNCEMENTS_AT_ONCE) return;
      last = behind.at(-1)?.id ?? last;
    }
  }

  async #receiveChunks(
    announced: Announced & { readonly message: number },
    receiving: { receiver: string; leaseMs: number } & Pick<Sending, "onProgress" | "signal">,
    handler: (file: ReceivedFile) => unknown,
  ): Promise<boolean> {
    const { id, chunkBytes, message } = announced;
    const askedAt = performance.now();
    const first = await this.#store.take(id, receiving.receiver, { has: 0 });
    if (first.status === "gone" || first.status === "dropped") return false;
    const { index: has } = first;
    const offset = first.status === "end" ? first.size : has * chunkBytes;
    const resumption = { has, offset, askedAt };
    const file = new IncomingFile(this.#store, announced, { ...receiving, ...resumption });
    try {
      await handler(file);
      await this.#store.finish(id, receiving.receiver, message);
      return true;
    } catch (error) {
      if (error instanceof TransferGoneError || this.#refuses(announced.name, error)) return false;
      throw error;
    } finally {
      file.close();
    }
  }

  /** Whether a handler refuses a file because of its name. The receiver continues: the name would be refused again. */
  #refuses(name: string, error: unknown): boolean {
    if (!(error instanceof InvalidNameError) || error.details.value !== name) return false;
    this.#redis.logger.warn({ err: error, channel: this.channel }, "a file is missed");
    return true;
  }

  /** Throws the error. A corrupt file would be corrupt again, and hold up its sender and the files behind it. */
  async #passCorrupt(name: string, error: unknown, pass: () => Promise<void>): Promise<never> {
    if (error instanceof CorruptFileError && error.details.name === name) await pass();
    throw error;
  }

  async #receiveDocumented(
    { name, message }: { name: string; message: number },
    { receiver, onProgress, signal }: { receiver: string } & Pick<Sending, "onProgress" | "signal">,
    handler: (file: ReceivedFile) => unknown,
  ): Promise<boolean> {
    const size = await this.#store.contentLength(name);
    if (size === undefined) return false; // removed before this receiver came
    const content = () => readDocumented(this.#store, name, { onProgress, signal });
    try {
      await handler({ name, size, offset: 0, sha256: undefined, [Symbol.asyncIterator]: content });
    } catch (error) {
      if (error instanceof TransferGoneError || this.#refuses(name, error)) return false;
      throw error;
    }
    await this.#store.done(name, receiver, message);
    return true;
  }
}

interface Sending extends Required<Omit<PublishOptions, "id" | "name">> {
  readonly id: string;
  readonly name: string;
  readonly total: number | undefined;
  readonly content: () => AsyncIterable<Buffer>;
  /** Whether `content` can be called more than once: a file can be read again, a stream cannot. */
  readonly readAgain: boolean;
}
