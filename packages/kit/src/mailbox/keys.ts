/** Every key of a mailbox. The first is the list of the document, one per recipient. */
import { beside, headOf } from "../keyspace.ts";

/** The keys of one mailbox. */
export interface MailboxKeys {
  /** list: messages as JSON, oldest first. Other programs RPUSH to it. */
  readonly box: string;
  /** zset: id -> ms when its lease ends; only messages that are handed out. */
  readonly leases: string;
  /** hash: id -> attempt SPACE message; only messages that are handed out. */
  readonly taken: string;
  /** hash: id, or `x` and the SHA-1 of a message of another program -> attempts; only messages that came back. */
  readonly tries: string;
  /** list: messages that came back too often, newest first. */
  readonly dead: string;
  /** zset: list SPACE token -> ms; receivers that wait to be woken. */
  readonly waiters: string;
  /** hash: slot of a sender -> number of its last send SPACE ms when that was. Expires 10 minutes after the last one. */
  readonly sends: string;
}

/** The keys of the mailbox of `name`. */
export function mailboxKeys(prefix: string, name: string): MailboxKeys {
  const head = headOf(prefix);
  const box = `${head}mailbox:${name}`;
  const key = (family: string) => beside(box, { head, family: `mailbox-${family}`, name });
  return {
    box,
    leases: key("leases"),
    taken: key("taken"),
    tries: key("tries"),
    dead: key("dead"),
    waiters: key("waiters"),
    sends: key("sends"),
  };
}
