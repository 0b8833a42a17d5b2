/** Options of mailboxes. */
import {
  integer,
  type OptionTable,
  oneOf,
  optional,
  type Rule,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { durationOrNull } from "../duration.ts";
import { prefixSpec } from "../keyspace.ts";
import { numberedPage } from "../numbered-page.ts";

/** How a mailbox behaves. */
export interface MailboxOptions {
  /** In front of every key; give it a hash tag on Cluster, as in "{shop}". @default "" */
  readonly prefix?: string;
  /** How long a received message is hidden from other receivers. @default 30000 */
  readonly leaseMs?: number;
  /** How often a message is handed out before it becomes a dead letter. @default 10 */
  readonly attempts?: number;
  /** How many messages fit, those handed out included. @default 10000 */
  readonly maxMessages?: number;
  /** What send() does with a full box: throw OverloadedError, or drop the oldest message. @default "reject" */
  readonly overflow?: "reject" | "drop-oldest";
  /** How large one message may be, as JSON. @default 1048576 */
  readonly maxMessageBytes?: number;
  /** How long a message lives, unless send() says otherwise; null: no end. @default null */
  readonly ttlMs?: number | null;
}

/** How one message is sent. */
export interface SendOptions {
  /** The name of the sender. @default none */
  readonly sender?: string | undefined;
  /** How long it lives; null: no end. @default that of the mailbox */
  readonly ttlMs?: number | null | undefined;
}

/** How messages are received. */
export interface ReceiveOptions {
  /** At most this many, and about 1 MiB of them at a time. @default 1 */
  readonly max?: number;
  /** How long to wait for the first one; null: without a bound. @default 0 */
  readonly waitMs?: number | null;
  /** Ends the wait; receive() then returns what there is. */
  readonly signal?: AbortSignal | undefined;
}

/** Which messages of a mailbox. */
export interface PageOptions {
  /** The cursor of the previous page. */
  readonly cursor?: string | undefined;
  /** How many messages at most. @default 50 */
  readonly limit?: number;
}

/** How long a lease may be. */
export const leaseRule: Rule<number> = integer(10, 604_800_000);

const table: OptionTable<MailboxOptions> = {
  prefix: prefixSpec,
  leaseMs: { default: 30_000, rule: leaseRule },
  attempts: { default: 10, rule: integer(1, 1_000_000) },
  maxMessages: { default: 10_000, rule: integer(1, 100_000_000) },
  overflow: { default: "reject", rule: oneOf("reject", "drop-oldest") },
  maxMessageBytes: { default: 1_048_576, rule: integer(1, 67_108_864) },
  ttlMs: { default: null, rule: durationOrNull(1) },
};

const sendTable: OptionTable<SendOptions> = {
  sender: { default: undefined, rule: optional(text) },
  ttlMs: { default: undefined, rule: optional(durationOrNull(1)) },
};

const receiveTable: OptionTable<ReceiveOptions> = {
  max: { default: 1, rule: integer(1, 1_000) },
  waitMs: { default: 0, rule: durationOrNull(0) },
  signal: {
    default: undefined,
    rule: optional(satisfying("an AbortSignal", (value) => value instanceof AbortSignal)),
  },
};

export function resolveMailboxOptions(given?: MailboxOptions): Required<MailboxOptions> {
  return resolveOptions(table, given);
}

export function resolveSendOptions(given?: SendOptions): Required<SendOptions> {
  return resolveOptions(sendTable, given);
}

export function resolvePageOptions(given?: PageOptions): Required<PageOptions> {
  return resolveOptions(numberedPage, given);
}

export function resolveReceiveOptions(given?: ReceiveOptions): Required<ReceiveOptions> {
  return resolveOptions(receiveTable, given);
}
