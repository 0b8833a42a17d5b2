/** Options of group chat. */
import {
  flag,
  integer,
  type OptionTable,
  optional,
  resolveOptions,
  satisfying,
} from "@ropeway/core/internal";
import { durationOrNull } from "../duration.ts";
import { prefixSpec } from "../keyspace.ts";
import { numberedPage } from "../numbered-page.ts";
import { isPlaceCursor } from "./place-cursor.ts";

/** How rooms behave. Use the same values in every process. */
export interface ChatOptions {
  /** In front of every key; on Cluster it needs a hash tag, as in "{shop}". @default "" */
  readonly prefix?: string;
  /** How many messages a room keeps for members that do not read them. @default 10000 */
  readonly maxMessages?: number;
  /** How long a room keeps a message; null: no end. @default 2592000000 (30 days) */
  readonly maxAgeMs?: number | null;
  /** Keep messages that all members have read, for history(). The documents remove them. @default false */
  readonly keepRead?: boolean;
  /** How large one message may be, as JSON. @default 1048576 */
  readonly maxMessageBytes?: number;
  /** How long send() waits for a documented program that holds the room's lock. @default 10000 */
  readonly lockWaitMs?: number;
}

/** Which messages. */
export interface HistoryOptions {
  /** The cursor of the previous page. */
  readonly cursor?: string | undefined;
  /** @default 50 */
  readonly limit?: number;
}

/** Which messages, over all rooms of a user. */
export interface PendingOptions extends HistoryOptions {
  /** How many messages of each room at most. @default 100 */
  readonly perRoom?: number;
}

/** How a member joins. */
export interface JoinOptions {
  /** Begin at the oldest message that is kept, instead of now. @default false */
  readonly history?: boolean;
}

/** How long a feed runs. */
export interface FeedOptions {
  readonly signal: AbortSignal;
}

const table: OptionTable<ChatOptions> = {
  prefix: prefixSpec,
  maxMessages: { default: 10_000, rule: integer(1, 10_000_000) },
  maxAgeMs: { default: 2_592_000_000, rule: durationOrNull(1_000) },
  keepRead: { default: false, rule: flag },
  maxMessageBytes: { default: 1_048_576, rule: integer(1, 67_108_864) },
  lockWaitMs: { default: 10_000, rule: integer(0) },
};

const placesTable: OptionTable<HistoryOptions> = {
  ...numberedPage,
  cursor: {
    default: undefined,
    rule: optional(satisfying("a cursor of an earlier page", isPlaceCursor)),
  },
};

const pendingTable: OptionTable<PendingOptions> = {
  ...placesTable,
  perRoom: { default: 100, rule: integer(1, 1_000) },
};

const joinTable: OptionTable<JoinOptions> = { history: { default: false, rule: flag } };

const feedTable: OptionTable<FeedOptions> = {
  signal: {
    default: new AbortController().signal,
    rule: satisfying("an AbortSignal", (value) => value instanceof AbortSignal),
  },
};

export function resolveChatOptions(given?: ChatOptions): Required<ChatOptions> {
  return resolveOptions(table, given);
}

export function resolveHistoryOptions(given?: HistoryOptions): Required<HistoryOptions> {
  return resolveOptions(numberedPage, given);
}

export function resolvePlacesOptions(given?: HistoryOptions): Required<HistoryOptions> {
  return resolveOptions(placesTable, given);
}

export function resolvePendingOptions(given?: PendingOptions): Required<PendingOptions> {
  return resolveOptions(pendingTable, given);
}

export function resolveJoinOptions(given?: JoinOptions): Required<JoinOptions> {
  return resolveOptions(joinTable, given);
}

export function resolveFeedOptions(given: FeedOptions): Required<FeedOptions> {
  return resolveOptions(feedTable, given);
}
