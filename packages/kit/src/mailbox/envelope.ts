/**
 * One element of a mailbox list. Ours is
 *
 *   {"id":"9f..","ts":1795600000.123,"expires":1795600030123,"sender":"anna","message":...}
 *
 * with the fields in this order, because the scripts find id and expiry by their place instead of
 * parsing every message. Any other JSON is a message of another program, as a whole.
 */

/** A message and what is known about it. */
export interface Envelope<Message> {
  readonly message: Message;
  readonly sender: string | undefined;
  /** When it was sent, ms since the epoch; undefined for a message of another program. */
  readonly sentAt: number | undefined;
}

/** A dead letter of another program that is not JSON. */
export interface UnreadableLetter {
  readonly message: undefined;
  readonly sender: undefined;
  readonly sentAt: undefined;
  /** What the other program wrote, read as UTF-8. */
  readonly raw: string;
}

/** A message that will not be received again. `raw` tells the two forms apart. */
export type DeadLetter<Message> =
  | (Envelope<Message> & { readonly raw?: undefined })
  | UnreadableLetter;

/** Reads a dead letter, JSON or not. */
export function readLetter<Message>(body: string): DeadLetter<Message> {
  const unreadable = { message: undefined, sender: undefined, sentAt: undefined, raw: body };
  return readEnvelope<Message>(body) ?? unreadable;
}

/** Reads an element; undefined if it is not JSON. */
export function readEnvelope<Message>(body: string): Envelope<Message> | undefined {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return undefined;
  }
  if (!isEnvelope(value)) {
    return { message: value as Message, sender: undefined, sentAt: undefined };
  }
  return {
    message: value.message as Message,
    sender: value.sender,
    sentAt: Math.round(value.ts * 1_000),
  };
}

interface WireEnvelope {
  readonly id: string;
  readonly ts: number;
  readonly sender?: string;
  readonly message: unknown;
}

function isEnvelope(value: unknown): value is WireEnvelope {
  if (typeof value !== "object" || value === null) return false;
  const { id, ts } = value as Partial<WireEnvelope>;
  return typeof id === "string" && typeof ts === "number" && Object.hasOwn(value, "message");
}
