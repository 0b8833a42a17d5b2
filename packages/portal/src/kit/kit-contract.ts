/** The responses of the building blocks; see contract.ts. */
import { z } from "zod";

/** A lock that is held. */
export interface HeldLockView {
  readonly name: string;
  readonly mode: "write" | "read" | "foreign";
  readonly owner: string;
  readonly fence: number | null;
  readonly leftMs: number | null;
  readonly readers: number;
  readonly waiting: number;
}
export const HeldLockView: z.ZodType<HeldLockView> = z.object({
  name: z.string(),
  mode: z
    .enum(["write", "read", "foreign"])
    .describe("foreign: held by a program that follows the documented lock."),
  owner: z.string().describe("Empty for readers and for foreign holders."),
  fence: z.int().nullable(),
  leftMs: z.number().nullable().describe("What is left of its time; null: no end."),
  readers: z.int(),
  waiting: z.int(),
});

/** A semaphore of which a process holds a permit. */
export interface SemaphoreUseView {
  readonly name: string;
  readonly limit: number | null;
  readonly held: number;
  readonly waiting: number;
}
export const SemaphoreUseView: z.ZodType<SemaphoreUseView> = z.object({
  name: z.string(),
  limit: z.int().nullable().describe("null: every process uses its own option."),
  held: z.int(),
  waiting: z.int(),
});

/** A room of a group chat. */
export interface ChatRoomView {
  readonly id: string;
  readonly members: number;
  readonly messages: number;
  readonly newest: number;
}
export const ChatRoomView: z.ZodType<ChatRoomView> = z.object({
  id: z.string(),
  members: z.int(),
  messages: z.int(),
  newest: z.int().describe("Id of the newest message."),
});

/** A file on its way. */
export interface FileTransferView {
  readonly id: string;
  readonly channel: string;
  readonly name: string;
  readonly sent: number;
  readonly size: number | null;
  readonly chunkBytes: number;
  readonly receivers: readonly { readonly receiver: string; readonly chunks: number }[];
  readonly dropped: number;
  readonly since: string;
}
export const FileTransferView: z.ZodType<FileTransferView> = z.object({
  id: z.string(),
  channel: z.string(),
  name: z.string(),
  sent: z.int().describe("Chunks sent so far."),
  size: z.int().nullable().describe("Bytes in all; null while the sender does not know."),
  chunkBytes: z.int(),
  receivers: z.array(z.object({ receiver: z.string(), chunks: z.int() })),
  dropped: z.int().describe("Receivers that were away too long."),
  since: z.iso.datetime(),
});
