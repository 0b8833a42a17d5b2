/**
 * Every key of group chat. All but the last five are documented. A step touches keys of a room and of
 * users, so on Cluster the prefix needs a hash tag.
 */
import { headOf } from "../keyspace.ts";

/** The keys of one room. */
export interface RoomKeys {
  /** zset: user -> id of the last message that it has acknowledged. */
  readonly members: string;
  /** string: id of the newest message. */
  readonly ids: string;
  /** zset: message as JSON -> its id. */
  readonly msgs: string;
  /** string: held by a documented program while it sends. */
  readonly lock: string;
  /** stream: message id, typing user, present user; what live feeds block on. */
  readonly live: string;
  /** zset: user -> ms until when it is typing. */
  readonly typing: string;
  /** zset: user -> ms until when it is present. */
  readonly present: string;
  /** hash: slot of a sender -> number, id and time (s) of its last message. Expires 10 minutes after the last one. */
  readonly sends: string;
  /** zset: user that joined later -> id of the last message before it joined. Expires a day after the last one joined. */
  readonly joined: string;
}

/** The keys of a room. */
export function roomKeys(prefix: string, room: string): RoomKeys {
  const head = headOf(prefix);
  return {
    members: `${head}chat:${room}`,
    ids: `${head}ids:${room}`,
    msgs: `${head}msgs:${room}`,
    lock: `${head}lock:chat:${room}`,
    live: `${head}chat-live:${room}`,
    typing: `${head}chat-typing:${room}`,
    present: `${head}chat-present:${room}`,
    sends: `${head}chat-sends:${room}`,
    joined: `${head}chat-joined:${room}`,
  };
}

/** string: counts rooms that were made without an id. */
export function roomCounterKey(prefix: string): string {
  return `${headOf(prefix)}ids:chat:`;
}

/** zset: room -> id of the last message that the user has acknowledged there. */
export function seenKey(prefix: string, user: string): string {
  return `${headOf(prefix)}seen:${user}`;
}

/** What the keys of members begin with. */
export function membersHead(prefix: string): string {
  return `${headOf(prefix)}chat:`;
}
