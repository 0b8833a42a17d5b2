/**
 * The live feed of one user: first what is pending, then everything as it happens, room by room in the
 * order of ids. Messages are read when the consumer asks for the next one, so a slow consumer delays
 * only itself. A feed does not acknowledge; the consumer does that when it has handled a message. While
 * Redis is unreachable, a feed waits, and then continues with the next message.
 *
 * Ids begin anew in a room that ended and was made again, and go back if Redis lost its last writes. A feed
 * notices that the message it has read last is another one now, or that its user's cursor went back, and goes
 * on at that cursor: a message may come twice then, but none is skipped.
 */
import { AbortedError } from "@ropeway/core";
import { within } from "@ropeway/core/internal";
import { AWAY_MS, isAway } from "../away.ts";
import { Bell } from "../bell.ts";
import { type LiveEvent, liveReaderOf } from "./live-reader.ts";
import type { RoomMessage } from "./message.ts";
import type { OrderedPlace } from "./place-cursor.ts";
import type { ChatStore, Membership } from "./store.ts";

/** What a feed yields. */
export type ChatEvent<Message> =
  | ({ readonly type: "message" } & RoomMessage<Message>)
  | { readonly type: "typing" | "present"; readonly room: string; readonly user: string };

/** How often a feed looks for rooms that its user joined or left, and for messages without a notification. */
const ROOMS_EVERY_MS = 2_000;
/** How often it looks while its user is in no room at all. */
const FIRST_ROOM_MS = 200;
const ROOMS_AT_ONCE = 1_000;
const MESSAGES_AT_ONCE = 100;
/** Typing and presence are dropped when the consumer is this far behind. */
const MOST_NOTES = 1_000;

interface Watched {
  /** Id of the last message that was read. */
  cursor: number;
  /** The message with that id, if this feed has read it. */
  last: RoomMessage<unknown> | undefined;
  /** The user's cursor in Redis when it was looked at last. */
  seen: number;
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
  const pause = new Bell(signal);
  // The signal also ends a command that waits for an unreachable Redis.
  const persist = async <T>(read: () => Promise<T>): Promise<T> => {
    for (;;) {
      try {
        return await within(read(), { signal, what: "a feed" });
      } catch (error) {
        if (!isAway(error)) throw error;
        await pause.wait(AWAY_MS);
      }
    }
  };
  let roomsAt = Number.NEGATIVE_INFINITY;
  try {
    while (!signal.aborted) {
      const everyMs = rooms.size === 0 ? FIRST_ROOM_MS : ROOMS_EVERY_MS;
      if (performance.now() - roomsAt >= everyMs) {
        const watch = (room: string) => reader.watch(room, onEvent(room));
        await follow(store, user, { rooms, watch, persist });
        roomsAt = performance.now();
      }
      for (const note of notes.splice(0)) yield note;
      let quiet = true;
      for (const [room, watched] of rooms) {
        if (!watched.dirty) continue;
        watched.dirty = false;
        const messages = await persist(() => news<M>(store, { room, user }, watched));
        if (messages.length === MESSAGES_AT_ONCE) watched.dirty = true;
        quiet &&= messages.length === 0 && !watched.dirty;
        for (const message of messages) {
          if (signal.aborted) return;
          watched.cursor = message.id;
          watched.last = message;
          yield { type: "message", ...message };
        }
      }
      const leftMs =
        roomsAt + (rooms.size === 0 ? FIRST_ROOM_MS : ROOMS_EVERY_MS) - performance.now();
      if (quiet && notes.length === 0) await bell.wait(Math.max(1, leftMs));
    }
  } catch (error) {
    if (!(signal.aborted && error instanceof AbortedError)) throw error;
  } finally {
    bell.close();
    pause.close();
    for (const { unwatch } of rooms.values()) unwatch();
  }
}

/**
 * The messages that come next. The last one that was read is read again, to see that it is still the same. If
 * this feed has read none, the user's cursor says whether the room is. The membership is read after the messages,
 * so a user that has left gets none that came later, and one that has joined again none that came meanwhile.
 */
async function news<M>(
  store: ChatStore,
  { room, user }: { readonly room: string; readonly user: string },
  watched: Watched,
): Promise<readonly RoomMessage<M>[]> {
  const { cursor, last } = watched;
  if (last === undefined) {
    const unread = await store.after<M>(room, cursor, MESSAGES_AT_ONCE);
    if (unread.length === 0) return unread;
    const membership = await store.membership(room, user);
    if (membership === undefined || membership.cursor >= watched.seen) {
      return allowed(unread, membership, watched);
    }
    watched.seen = membership.cursor;
    goTo(watched, membership.cursor);
    return [];
  }
  const found = await store.after<M>(room, cursor - 1, MESSAGES_AT_ONCE + 1);
  const [first, ...rest] = found;
  const known = first?.id === cursor ? first : undefined;
  const same = known?.sentAt === last.sentAt && known.sender === last.sender;
  if (known !== undefined && !same) {
    const seen = (await store.membership(room, user))?.cursor ?? 0;
    goTo(watched, Math.min(seen, cursor - 1));
    return [];
  }
  const unread = known === undefined ? found.slice(0, MESSAGES_AT_ONCE) : rest;
  return unread.length === 0
    ? unread
    : allowed(unread, await store.membership(room, user), watched);
}

/** The messages if their user may read them: none after it has left, and none that were sent before it joined again. */
function allowed<M>(
  unread: readonly RoomMessage<M>[],
  membership: Membership | undefined,
  watched: Watched,
): readonly RoomMessage<M>[] {
  if (membership === undefined) return [];
  if (membership.joinedAfter <= watched.cursor) return unread;
  goTo(watched, membership.joinedAfter);
  return [];
}

function goTo(watched: Watched, cursor: number): void {
  watched.cursor = cursor;
  watched.last = undefined;
  watched.dirty = true;
}

interface Following {
  readonly rooms: Map<string, Watched>;
  readonly watch: (room: string) => () => void;
  /** Repeats a read until Redis responds. */
  readonly persist: <T>(read: () => Promise<T>) => Promise<T>;
}

/** Brings the watched rooms in step with those the user is a member of. */
async function follow(
  store: ChatStore,
  user: string,
  { rooms, watch, persist }: Following,
): Promise<void> {
  const gone = new Set(rooms.keys());
  for (let last: OrderedPlace | undefined; ; ) {
    const places = await persist(() => store.places(user, ROOMS_AT_ONCE, last));
    last = places.at(-1);
    for (const { name: room, cursor } of places) {
      gone.delete(room);
      if (rooms.has(room)) continue;
      const unread = { cursor, seen: cursor, last: undefined, dirty: true };
      rooms.set(room, { ...unread, unwatch: watch(room) });
    }
    const newest = await persist(() => store.newest(places.map(({ name }) => name)));
    places.forEach(({ name: room, cursor }, i) => {
      const watched = rooms.get(room);
      if (watched === undefined) return;
      const id = newest[i] ?? 0;
      if (id < watched.cursor || cursor < watched.seen) goTo(watched, cursor);
      watched.seen = cursor;
      watched.dirty ||= id > watched.cursor;
    });
    if (places.length < ROOMS_AT_ONCE) break;
  }
  for (const room of gone) {
    rooms.get(room)?.unwatch();
    rooms.delete(room);
  }
}
