/**
 * The live feed of one user: first what is pending, then everything as it happens, room by room in the
 * order of ids. Messages are read when the consumer asks for the next one, so a slow consumer holds back
 * only itself. A feed does not acknowledge; the consumer does that after it has dealt with a message.
 */
import { AbortedError } from "@ropeway/core";
import { within } from "@ropeway/core/internal";
import { Bell } from "../bell.ts";
import { type LiveEvent, liveReaderOf } from "./live-reader.ts";
import type { RoomMessage } from "./message.ts";
import type { ChatStore } from "./store.ts";

/** What a feed yields. */
export type ChatEvent<Message> =
  | ({ readonly type: "message" } & RoomMessage<Message>)
  | { readonly type: "typing" | "present"; readonly room: string; readonly user: string };

/** How often a feed looks for rooms that its user joined or left, and for messages it was not told of. */
const ROOMS_EVERY_MS = 2_000;
/** How often it looks while its user is in no room at all. */
const FIRST_ROOM_MS = 200;
const ROOMS_AT_ONCE = 1_000;
const MESSAGES_AT_ONCE = 100;
/** Typing and presence are dropped when the consumer is this far behind. */
const MOST_NOTES = 1_000;

interface Watched {
  cursor: number;
  /** There may be messages after the cursor. */
  dirty: boolean;
  readonly unwatch: () => void;
}

/** Yields what happens in the rooms of `user` until the signal aborts. */
export async function* feedOf<M>(
  store: ChatStore,
  user: string,
  signal: AbortSignal,
): AsyncGenerator<ChatEvent<M>, void> {
  const reader = liveReaderOf(store);
  const rooms = new Map<string, Watched>();
  const notes: ChatEvent<M>[] = [];
  const bell = new Bell(signal);
  const onEvent = (room: string) => (event: LiveEvent) => {
    if (event.kind === "message") {
      const watched = rooms.get(room);
      if (watched !== undefined) watched.dirty = true;
    } else if (notes.length < MOST_NOTES) notes.push({ type: event.kind, room, user: event.user });
    bell.ring();
  };
  // A command may wait for a Redis that is away; the signal ends the feed meanwhile as well.
  const unlessAborted = <T>(running: Promise<T>) => within(running, { signal, what: "a feed" });
  let roomsAt = Number.NEGATIVE_INFINITY;
  try {
    while (!signal.aborted) {
      const everyMs = rooms.size === 0 ? FIRST_ROOM_MS : ROOMS_EVERY_MS;
      if (performance.now() - roomsAt >= everyMs) {
        const watch = (room: string) => reader.watch(room, onEvent(room));
        await follow(store, user, { rooms, watch, unlessAborted });
        roomsAt = performance.now();
      }
      for (const note of notes.splice(0)) yield note;
      let quiet = true;
      for (const [room, watched] of rooms) {
        if (!watched.dirty) continue;
        watched.dirty = false;
        const reading = store.after<M>(room, watched.cursor, MESSAGES_AT_ONCE);
        const messages = await unlessAborted(reading);
        if (messages.length === MESSAGES_AT_ONCE) watched.dirty = true;
        quiet &&= messages.length === 0;
        for (const message of messages) {
          if (signal.aborted) return;
          watched.cursor = message.id;
          yield { type: "message", ...message };
        }
      }
      if (quiet && notes.length === 0) await bell.wait(everyMs);
    }
  } catch (error) {
    if (!(signal.aborted && error instanceof AbortedError)) throw error;
  } finally {
    bell.close();
    for (const { unwatch } of rooms.values()) unwatch();
  }
}

interface Following {
  readonly rooms: Map<string, Watched>;
  readonly watch: (room: string) => () => void;
  readonly unlessAborted: <T>(running: Promise<T>) => Promise<T>;
}

/** Brings the watched rooms in step with those the user is a member of. */
async function follow(
  store: ChatStore,
  user: string,
  { rooms, watch, unlessAborted }: Following,
): Promise<void> {
  const gone = new Set(rooms.keys());
  for (let first = 0; ; first += ROOMS_AT_ONCE) {
    const places = await unlessAborted(store.places(user, first, ROOMS_AT_ONCE));
    for (const { room, cursor } of places) {
      gone.delete(room);
      if (!rooms.has(room)) rooms.set(room, { cursor, dirty: true, unwatch: watch(room) });
    }
    const newest = await unlessAborted(store.newest(places.map(({ room }) => room)));
    places.forEach(({ room, cursor }, i) => {
      const watched = rooms.get(room);
      if (watched === undefined) return;
      const id = newest[i] ?? 0;
      if (id < watched.cursor) watched.cursor = cursor; // ended, made again: ids begin anew
      watched.dirty ||= id > watched.cursor;
    });
    if (places.length < ROOMS_AT_ONCE) break;
  }
  for (const room of gone) {
    rooms.get(room)?.unwatch();
    rooms.delete(room);
  }
}
