/**
 * A message in a room, as it is documented:
 *
 *   {"id": 7, "ts": 1795600000.123456, "sender": "anna", "message": ...}
 */
import { InvalidArgumentError } from "@ropeway/core";
import { jsonOf } from "../json-of.ts";

/** The latest time that a Date can hold. */
const LATEST_MS = 8.64e15;

/** One message of a room. */
export interface RoomMessage<Message> {
  readonly room: string;
  /** Counts the messages of the room from 1, without gaps. */
  readonly id: number;
  readonly sender: string;
  /** ms since the epoch. */
  readonly sentAt: number;
  readonly message: Message;
}

/** A message as JSON. Throws InvalidArgumentError if it is not JSON, or larger than a room accepts. */
export function messageJson(message: unknown, maxBytes: number): string {
  const json = jsonOf(message);
  if (Buffer.byteLength(json) > maxBytes) {
    throw new InvalidArgumentError("message", json, `at most ${maxBytes} bytes as JSON`);
  }
  return json;
}

/** Reads a member of `msgs:`, whose score is the id; undefined if it is not a message. */
export function readMessage<Message>(
  room: string,
  json: string,
  score: string,
): RoomMessage<Message> | undefined {
  try {
    const value = JSON.parse(json) as { sender?: unknown; ts?: unknown; message?: unknown } | null;
    if (typeof value !== "object" || value === null) return undefined;
    return {
      room,
      id: Number(score),
      sender: String(value.sender ?? ""),
      sentAt: timeOf(value.ts),
      message: value.message as Message,
    };
  } catch {
    return undefined;
  }
}

/** A time in seconds as ms since the epoch; 0 if it is out of range, for example because it is in microseconds. */
function timeOf(ts: unknown): number {
  const ms = Math.round(Number(ts) * 1_000);
  return Math.abs(ms) <= LATEST_MS ? ms : 0;
}
