/**
 * Every key of file distribution. A step touches the keys of one transfer only; announcements go
 * through a chat room, so on Cluster the prefix needs a hash tag.
 */
import { headOf } from "../keyspace.ts";

/** The keys of one transfer. */
export interface TransferKeys {
  /** hash: name, chunkBytes, next, sent, low, since; at the end chunks, size, sha256; dropped, done, sender. */
  readonly meta: string;
  /** hash: index -> SHA-256 (32 bytes) and content of a chunk. */
  readonly chunks: string;
  /** zset: receiver -> how many chunks it has. */
  readonly acks: string;
  /** zset: receiver -> ms when its lease ends. */
  readonly leases: string;
  /** hash: receiver -> list SPACE token to wake. */
  readonly waiters: string;
  /** In the order of the scripts. */
  readonly all: readonly string[];
}

/** The keys of a transfer. */
export function transferKeys(prefix: string, channel: string, id: string): TransferKeys {
  const key = (part: string) => `${headOf(prefix)}file-${part}:${channel}:${id}`;
  const [meta, chunks, acks, leases, waiters] = [
    key("meta"),
    key("chunks"),
    key("acks"),
    key("leases"),
    key("waiters"),
  ] as const;
  return { meta, chunks, acks, leases, waiters, all: [meta, chunks, acks, leases, waiters] };
}

/** What the keys of all transfers begin with. */
export function transferHead(prefix: string): string {
  return `${headOf(prefix)}file-meta:`;
}

/** string: the content of a file on the documented wire. */
export function contentKey(prefix: string, channel: string, name: string): string {
  return `${headOf(prefix)}${channel}${name}`;
}

/** string: how many receivers are done with a file on the documented wire. */
export function doneKey(prefix: string, channel: string, name: string): string {
  return `${contentKey(prefix, channel, name)}:done`;
}

/** set: the receivers of a file on the documented wire that are not counted yet, if a sender of ours has published it. */
export function namedKey(prefix: string, channel: string, name: string): string {
  return `${headOf(prefix)}file-named:${channel}${name}`;
}
