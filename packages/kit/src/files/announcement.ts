/**
 * The messages about files in a channel's chat room. A documented program announces a file by its name as a
 * plain string, and the end of the channel by ":done"; the first message of a room is "". We announce
 *
 *   {"file": "9f..", "name": "access.log", "chunkBytes": 262144, "size": 1073741824}
 */
import type { Announced } from "./incoming-file.ts";
import { isChunkSize } from "./options.ts";

/** What one message of the room means. */
export type Announcement =
  | ({ readonly kind: "chunks" } & Announced)
  | { readonly kind: "documented"; readonly name: string }
  | { readonly kind: "end" | "nothing" };

/** The message that ends a channel. */
export const END = ":done";

/** The message about a file. */
export function announcementOf({ id, name, chunkBytes, size }: Announced): object {
  return { file: id, name, chunkBytes, ...(size !== undefined && { size }) };
}

/** Reads a message; any other message is ignored. */
export function readAnnouncement(message: unknown): Announcement {
  if (message === END) return { kind: "end" };
  if (typeof message === "string" && message !== "") return { kind: "documented", name: message };
  if (typeof message !== "object" || message === null) return { kind: "nothing" };
  const { file, name, chunkBytes, size } = message as Record<string, unknown>;
  const usable = typeof file === "string" && typeof name === "string" && isChunkSize(chunkBytes);
  if (!usable) return { kind: "nothing" };
  const known = typeof size === "number" ? size : undefined;
  return { kind: "chunks", id: file, name, chunkBytes, size: known };
}
