/** What the merge queue's routes take and answer; see contract.ts. */
import { z } from "zod";

/** A key with something in it. */
export interface QueueKey {
  readonly key: string;
  readonly target: { mergeKey: string; method: string; url: string } | null;
  readonly ontime: number | null;
  readonly items: number;
  readonly state: "waiting" | "sending" | "retrying";
  readonly paused: boolean;
  readonly attempts: number;
  readonly error: string | null;
}
const target = z.object({ mergeKey: z.string(), method: z.string(), url: z.string() }).nullable();
const keyShape = {
  key: z.string().describe("The name to use in the other routes."),
  target: target.describe("null for a key that the HTTP service did not make."),
  ontime: z.number().nullable().describe("When it fires, unix seconds."),
  items: z.int(),
  state: z
    .enum(["waiting", "sending", "retrying"])
    .describe("sending: a dispatcher has it; retrying: it failed and waits for the next attempt."),
  paused: z.boolean().describe("It is not handed out until it is resumed."),
  attempts: z.int(),
  error: z.string().nullable().describe("Why the last attempt failed."),
};
export const QueueKey: z.ZodType<QueueKey> = z.object(keyShape);

/** One pushed body. */
export interface QueueItem {
  readonly id: string;
  readonly pushedAt: number;
  readonly contentType: string;
  readonly body: string;
  readonly encoding: "utf8" | "base64";
}
const item = z.object({
  id: z.string(),
  pushedAt: z.number().describe("Unix seconds."),
  contentType: z.string(),
  body: z.string(),
  encoding: z.enum(["utf8", "base64"]).describe("base64 if the body is not text."),
});
export const QueueItem: z.ZodType<QueueItem> = item;

/** A key with its oldest items. */
export interface QueueKeyDetail extends QueueKey {
  readonly data: Readonly<Record<string, string>>;
  readonly oldest: readonly QueueItem[];
}
export const QueueKeyDetail: z.ZodType<QueueKeyDetail> = z.object({
  ...keyShape,
  data: z.record(z.string(), z.string()),
  oldest: z.array(item),
});

/** One page of keys. */
export interface QueueKeyPage {
  readonly entries: readonly QueueKey[];
  readonly cursor: string | null;
}
const cursor = z.string().nullable().describe("Where the next page begins; null at the end.");
export const QueueKeyPage: z.ZodType<QueueKeyPage> = z.object({
  entries: z.array(z.object(keyShape)),
  cursor,
});

/** A batch that was given up. */
export interface DeadLetterView {
  readonly id: string;
  readonly key: string;
  readonly target: QueueKey["target"];
  readonly reason: string;
  readonly attempts: number;
  readonly items: number;
  readonly at: number;
  readonly delivery: string;
}
const letter = z.object({
  id: z.string(),
  key: z.string(),
  target,
  reason: z.string(),
  attempts: z.int(),
  items: z.int(),
  at: z.number().describe("When it died, unix seconds."),
  delivery: z.string().describe("The webhook-id it was sent under."),
});
export interface DeadLetterPage {
  readonly entries: readonly DeadLetterView[];
  readonly cursor: string | null;
}
export const DeadLetterPage: z.ZodType<DeadLetterPage> = z.object({
  entries: z.array(letter),
  cursor,
});

/** The health of one target. */
export interface EndpointView {
  readonly url: string;
  readonly delivered: number;
  readonly failed: number;
  readonly status: string;
  readonly at: number;
  readonly heldUntil: number | null;
  readonly disabled: string | null;
  readonly paused: boolean;
  readonly breaker: "closed" | "open" | "half-open";
  readonly openUntil: number | null;
}
const endpoint = z.object({
  url: z.string(),
  delivered: z.int(),
  failed: z.int(),
  status: z.string().describe("The last HTTP status or error code."),
  at: z.number().describe("When it was last called, ms since 1970."),
  heldUntil: z.number().nullable().describe("Until when it asked us to wait, ms since 1970."),
  disabled: z.string().nullable().describe("Why it is not called any more."),
  paused: z.boolean().describe("What comes due for it waits."),
  breaker: z.enum(["closed", "open", "half-open"]),
  openUntil: z.number().nullable(),
});
export interface EndpointPage {
  readonly entries: readonly EndpointView[];
  readonly cursor: string | null;
}
export const EndpointPage: z.ZodType<EndpointPage> = z.object({
  entries: z.array(endpoint),
  cursor,
});

/** The queue in numbers. */
export interface QueueStats {
  readonly keys: number;
  readonly due: number;
  readonly deadLetters: number;
  readonly endpoints: number;
  readonly oldestDueMs: number;
  readonly paused: boolean;
  readonly pausedKeys: number;
}
export const QueueStats: z.ZodType<QueueStats> = z.object({
  keys: z.int().describe("Keys with something in them."),
  due: z.int(),
  deadLetters: z.int(),
  endpoints: z.int(),
  oldestDueMs: z.number().describe("How long the oldest due key has been due."),
  paused: z.boolean().describe("Whether nothing at all is handed out."),
  pausedKeys: z.int().describe("Keys that are paused one by one."),
});
