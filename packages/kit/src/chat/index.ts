/** `@ropeway/kit/chat`: group chat with cursors, retention and live feeds. */
export { Chat, type NewRoom, type Pending } from "./chat.ts";
export { NotAMemberError, RoomExistsError, RoomNotFoundError } from "./errors.ts";
export type { ChatEvent } from "./feed.ts";
export type { RoomMessage } from "./message.ts";
export type {
  ChatOptions,
  FeedOptions,
  HistoryOptions,
  JoinOptions,
  PendingOptions,
} from "./options.ts";
export { type Member, Room, type RoomView } from "./room.ts";
