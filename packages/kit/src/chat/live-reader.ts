/**
 * What happens in rooms, for all feeds of this process, over one connection.
 *
 *   XREAD BLOCK on the live streams of all watched rooms  --->  listeners of the room
 *
 * The stream only says that there is something; feeds read the messages by their dense ids, so neither a
 * lost connection nor a restart of Redis leaves a gap. A documented program that sends does not write to
 * the stream: once a second the ids of the watched rooms are compared as well.
 */
import type { Redis } from "@ropeway/core";
import { Backoff, type BlockingConnection } from "@ropeway/core/internal";
import type { ChatStore } from "./store.ts";

const BLOCK_MS = 1_000;

/** An event in a room. */
export interface LiveEvent {
  readonly kind: "message" | "typing" | "present";
  /** The user who is typing or present. */
  readonly user: string;
}

type Listener = (event: LiveEvent) => void;

interface Watched {
  readonly room: string;
  readonly listeners: Set<Listener>;
  streamId: string | undefined;
  newest: number;
  again: boolean;
}

const readers = new WeakMap<Redis, Map<string, LiveReader>>();

/** The reader of this process for one connection and prefix. */
export function liveReaderOf(store: ChatStore): LiveReader {
  const { prefix } = store.options;
  const ofRedis = readers.get(store.redis) ?? new Map<string, LiveReader>();
  readers.set(store.redis, ofRedis);
  const reader = ofRedis.get(prefix) ?? new LiveReader(store);
  ofRedis.set(prefix, reader);
  return reader;
}

/** Watches rooms for all feeds of the process. */
export class LiveReader {
  readonly #store: ChatStore;
  readonly #rooms = new Map<string, Watched>();
  #connection: BlockingConnection | undefined;
  #reading: Promise<void> | undefined;
  #closed = false;
  #comparedAt = Number.NEGATIVE_INFINITY;

  constructor(store: ChatStore) {
    this.#store = store;
  }

  /** Calls the listener when something happens in the room; returns an unsubscribe function. */
  watch(room: string, listener: Listener): () => void {
    const { live } = this.#store.keys(room);
    let watched = this.#rooms.get(live);
    if (watched === undefined) {
      watched = { room, listeners: new Set(), streamId: undefined, newest: 0, again: false };
      this.#rooms.set(live, watched);
      this.#connection?.interrupt(); // the wait under way does not include this room
    }
    watched.listeners.add(listener);
    this.#reading ??= this.#readWhileWatched();
    return () => {
      watched.listeners.delete(listener);
      if (watched.listeners.size === 0 && this.#rooms.get(live) === watched)
        this.#rooms.delete(live);
    };
  }

  async #readWhileWatched(): Promise<void> {
    do await this.#read();
    while (this.#rooms.size > 0 && !this.#closed);
    this.#reading = undefined;
  }

  async #read(): Promise<void> {
    const backoff = new Backoff({ baseMs: 50, maxMs: 2_000 });
    try {
      while (this.#rooms.size > 0) {
        try {
          const { redis } = this.#store;
          this.#connection ??= await redis.blocking("kit-chat", this.#store.keys("").live);
          await this.#round(this.#connection);
          backoff.reset();
        } catch (error) {
          this.#closed = isClosed(error);
          if (this.#closed) return this.#endAll();
          this.#store.redis.logger.debug({ err: error }, "cannot wait for messages");
          await new Promise((resolve) => setTimeout(resolve, backoff.next()).unref());
        }
      }
    } finally {
      const connection = this.#connection;
      this.#connection = undefined;
      await connection?.close();
    }
  }

  async #round(connection: BlockingConnection): Promise<void> {
    const watched = [...this.#rooms.entries()];
    const added = watched.filter(([, room]) => room.streamId === undefined);
    await Promise.all(
      added.map(async ([key, room]) => {
        room.streamId = await this.#store.liveEnd(key);
      }),
    );
    // A message may have come between a feed's own look and the end of the stream.
    if (added.length > 0 || performance.now() - this.#comparedAt >= BLOCK_MS) {
      this.#comparedAt = performance.now();
      await this.#compare(watched.map(([, room]) => room));
    }
    const streams = new Map(watched.map(([key, room]) => [key, room.streamId ?? "0-0"]));
    for (const { key, streamId, kind, value } of await this.#store.readLive(
      connection,
      streams,
      BLOCK_MS,
    )) {
      const room = this.#rooms.get(key);
      if (room === undefined) continue;
      room.streamId = streamId;
      if (kind === "message") room.newest = Math.max(room.newest, Number(value));
      if (kind === "message" || kind === "typing" || kind === "present") {
        for (const listener of room.listeners)
          listener({ kind, user: kind === "message" ? "" : value });
      }
    }
  }

  /** Finds messages that came without an entry in the stream. */
  async #compare(watched: readonly Watched[]): Promise<void> {
    const newest = await this.#store.newest(watched.map(({ room }) => room));
    watched.forEach((room, i) => {
      const id = newest[i] ?? 0;
      // A documented program counts first and adds later, so one more look follows each change.
      if (id === room.newest && !room.again) return;
      room.again = id !== room.newest;
      room.newest = id;
      if (id === 0) room.streamId = undefined; // the room, or all data, is gone: start anew
      for (const listener of room.listeners) listener({ kind: "message", user: "" });
    });
  }

  /** The connection was closed for good: the next command of each feed fails. */
  #endAll(): void {
    for (const { listeners } of this.#rooms.values()) {
      for (const listener of listeners) listener({ kind: "message", user: "" });
    }
    this.#rooms.clear();
  }
}

function isClosed(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "CONNECTION_CLOSED";
}
