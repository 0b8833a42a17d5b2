/** What the merge queue's routes take and return; see contract.ts. Times are ISO strings. */
import { z } from "zod";

/** Where items go. */
export interface DestinationView {
  readonly mergeKey: string;
  readonly method: string;
  readonly url: string;
}
const destination = z
  .object({ mergeKey: z.string(), method: z.string(), url: z.string() })
  .nullable()
  .describe("null for a key that was not pushed for an endpoint.");
const time = z.iso.datetime();
const cursor = z.string().nullable().describe("Where the next page begins; null on the last one.");

/** A key with items. */
export interface MergeKey {
  readonly key: string;
  readonly destination: DestinationView | null;
  readonly at: string | null;
  readonly items: number;
  readonly state: "waiting" | "sending" | "retrying" | "broken";
  readonly paused: boolean;
  readonly attempts: number;
  readonly error: string | null;
}
const keyShape = {
  key: z.string().describe("The name to use in the other routes."),
  destination,
  at: time.nullable().describe("When it fires; while it is being sent, when the lease ends."),
  items: z.int(),
  state: z
    .enum(["waiting", "sending", "retrying", "broken"])
    .describe(
      "sending: a dispatcher has it. retrying: it failed and waits. broken: it cannot be read.",
    ),
  paused: z.boolean().describe("It is not handed out until it is resumed."),
  attempts: z.int(),
  error: z.string().nullable().describe("Why the last attempt failed."),
};
export const MergeKey: z.ZodType<MergeKey> = z.object(keyShape);

/** One pushed body. */
export interface MergeItem {
  readonly id: string;
  readonly pushedAt: string;
  readonly contentType: string;
  readonly body: string;
  readonly encoding: "utf8" | "base64";
  readonly size: number;
  readonly truncated: boolean;
}
const item = z.object({
  id: z.string(),
  pushedAt: time,
  contentType: z.string(),
  body: z.string(),
  encoding: z.enum(["utf8", "base64"]).describe("base64 if the body is not UTF-8."),
  size: z.int().describe("Bytes of the whole body."),
  truncated: z.boolean().describe("Whether `body` is only its beginning."),
});
export const MergeItem: z.ZodType<MergeItem> = item;

/** A key with a page of its items. */
export interface MergeKeyDetail extends MergeKey {
  readonly data: Readonly<Record<string, string>>;
  readonly oldest: readonly MergeItem[];
  readonly cursor: string | null;
}
export const MergeKeyDetail: z.ZodType<MergeKeyDetail> = z.object({
  ...keyShape,
  data: z.record(z.string(), z.string()),
  oldest: z.array(item),
  cursor,
});

/** One page of keys. */
export interface MergeKeyPage {
  readonly items: readonly MergeKey[];
  readonly cursor: string | null;
}
export const MergeKeyPage: z.ZodType<MergeKeyPage> = z.object({
  items: z.array(z.object(keyShape)),
  cursor,
});

/** A batch whose delivery was abandoned. */
export interface DeadLetterView {
  readonly id: string;
  readonly key: string;
  readonly destination: DestinationView | null;
  readonly reason: string;
  readonly attempts: number;
  readonly items: number;
  readonly at: string;
  readonly delivery: string;
}
const letter = z.object({
  id: z.string(),
  key: z.string(),
  destination,
  reason: z.string(),
  attempts: z.int(),
  items: z.int(),
  at: time.describe("When it was given up."),
  delivery: z.string().describe("The webhook-id it was sent under."),
});
export const DeadLetterView: z.ZodType<DeadLetterView> = letter;
/** A page of dead letters. */
export interface DeadLetterPage {
  readonly items: readonly DeadLetterView[];
  readonly cursor: string | null;
}
export const DeadLetterPage: z.ZodType<DeadLetterPage> = z.object({
  items: z.array(letter),
  cursor,
});

/** A page of a dead letter's items. */
export interface MergeItemPage {
  readonly items: readonly MergeItem[];
  readonly cursor: string | null;
}
export const MergeItemPage: z.ZodType<MergeItemPage> = z.object({ items: z.array(item), cursor });

/** The health of one endpoint. */
export interface EndpointView {
  readonly url: string;
  readonly delivered: number;
  readonly failed: number;
  readonly status: string;
  readonly at: string | null;
  readonly heldUntil: string | null;
  readonly disabled: string | null;
  readonly paused: boolean;
  readonly breaker: "closed" | "open" | "half-open";
  readonly openUntil: string | null;
  readonly ratePerSecond: number | null;
  readonly concurrency: number | null;
  readonly secrets: number;
}
const endpoint = z.object({
  url: z.string(),
  delivered: z.int(),
  failed: z.int(),
  status: z.string().describe("The last HTTP status or error code."),
  at: time.nullable().describe("When it was last called."),
  heldUntil: time.nullable().describe("Until when it asked us to wait."),
  disabled: z.string().nullable().describe("Why it is not called any more."),
  paused: z.boolean().describe("What comes due for it waits."),
  breaker: z.enum(["closed", "open", "half-open"]),
  openUntil: time.nullable(),
  ratePerSecond: z.number().nullable().describe("The maximum of deliveries per second."),
  concurrency: z.int().nullable().describe("The maximum of deliveries at a time."),
  secrets: z.int().describe("How many secrets of its own sign deliveries to it."),
});
/** A page of endpoints. */
export interface EndpointPage {
  readonly items: readonly EndpointView[];
  readonly cursor: string | null;
}
export const EndpointPage: z.ZodType<EndpointPage> = z.object({
  items: z.array(endpoint),
  cursor,
});

/** One attempt to deliver a batch. */
export interface AttemptView {
  readonly entry: string;
  readonly key: string;
  readonly destination: DestinationView | null;
  readonly batch: string;
  readonly attempt: number;
  readonly items: number;
  readonly bytes: number;
  readonly result: "delivered" | "partial" | "invalid" | "retry" | "dead";
  readonly reason: string | null;
  readonly status: number | null;
  readonly response: string | null;
  readonly ms: number;
  readonly at: string;
}
export const AttemptView: z.ZodType<AttemptView> = z.object({
  entry: z.string().describe("Its place in the log."),
  key: z.string(),
  destination,
  batch: z.string().describe("The webhook-id."),
  attempt: z.int(),
  items: z.int(),
  bytes: z.int(),
  result: z.enum(["delivered", "partial", "invalid", "retry", "dead"]),
  reason: z.string().nullable(),
  status: z.int().nullable().describe("The HTTP status, if there was a response."),
  response: z.string().nullable().describe("The first bytes of the response."),
  ms: z.number().describe("How long the attempt took."),
  at: time,
});
/** A page of attempts. */
export interface AttemptPage {
  readonly items: readonly AttemptView[];
  readonly cursor: string | null;
}
export const AttemptPage: z.ZodType<AttemptPage> = z.object({
  items: z.array(AttemptView),
  cursor,
});

/** How a batch is delivered. */
export interface DeliveryRequestView {
  readonly attempts?: number | undefined;
  readonly timeoutMs?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly callback?: string | undefined;
  readonly failureCallback?: string | undefined;
}

/** A recurring push to write. */
export interface MergeScheduleBody {
  readonly destination: {
    readonly mergeKey: string;
    readonly method?: string | undefined;
    readonly url: string;
  };
  readonly body: string;
  readonly encoding?: "utf8" | "base64" | undefined;
  readonly contentType?: string | undefined;
  readonly update?: "once" | "always" | undefined;
  readonly request?: DeliveryRequestView | undefined;
  readonly cron?: string | undefined;
  readonly timeZone?: string | undefined;
  readonly everyMs?: number | undefined;
  readonly startAt?: string | undefined;
  readonly endAt?: string | undefined;
  readonly limit?: number | undefined;
  readonly immediately?: boolean | undefined;
  readonly maxLateMs?: number | undefined;
}
const url = z.url({ protocol: /^https?$/ }).max(2_048);
const scheduleDestination = z.object({
  mergeKey: z.string().min(1).max(1_024),
  method: z.enum(["POST", "PUT", "PATCH", "DELETE", "GET"]).optional(),
  url,
});
const scheduleRequest = z.object({
  attempts: z.int().min(1).max(1_000).optional(),
  timeoutMs: z.int().min(1).max(3_600_000).optional(),
  headers: z.record(z.string(), z.string()).optional(),
  callback: url.optional(),
  failureCallback: url.optional(),
});
const scheduleBody = z.object({
  destination: scheduleDestination,
  body: z.string().max(400_000).describe("The item of each run, at most 262,144 bytes."),
  encoding: z.enum(["utf8", "base64"]).optional().describe("Of the body. Defaults to utf8."),
  contentType: z.string().max(255).optional(),
  update: z
    .enum(["once", "always"])
    .optional()
    .describe("always: queued items of the merge key are delivered together with the run."),
  request: scheduleRequest.optional().describe("How its batch is delivered."),
  cron: z.string().max(200).optional().describe("Five or six fields, or an alias such as @daily."),
  timeZone: z.string().max(100).optional().describe("An IANA name. Defaults to UTC."),
  everyMs: z.int().min(1_000).optional().describe("The interval, instead of cron."),
  startAt: time.optional(),
  endAt: time.optional(),
  limit: z.int().min(1).optional().describe("The number of runs."),
  immediately: z.boolean().optional().describe("Run once at once, then at its times."),
  maxLateMs: z.number().min(0).optional().describe("A run that is later than this is skipped."),
});
export const MergeScheduleBody: z.ZodType<MergeScheduleBody> = scheduleBody
  .extend({
    destination: scheduleDestination.strict(),
    request: scheduleRequest.strict().optional().describe("How its batch is delivered."),
  })
  .strict();

/** A recurring push. */
export interface MergeScheduleView {
  readonly id: string;
  readonly state: "active" | "paused" | "ended";
  readonly nextAt: string | null;
  readonly lastAt: string | null;
  readonly runs: number;
  readonly error: string | null;
  readonly schedule: MergeScheduleBody | null;
}
export const MergeScheduleView: z.ZodType<MergeScheduleView> = z.object({
  id: z.string(),
  state: z.enum(["active", "paused", "ended"]),
  nextAt: time.nullable().describe("When it is due next; null unless it is active."),
  lastAt: time.nullable().describe("When its last run was due."),
  runs: z.int().describe("How often it ran."),
  error: z.string().nullable().describe("Why the last run was skipped or is late."),
  schedule: scheduleBody.nullable().describe("null if the stored value cannot be read."),
});
/** A page of recurring pushes. */
export interface MergeSchedulePage {
  readonly items: readonly MergeScheduleView[];
  readonly cursor: string | null;
}
export const MergeSchedulePage: z.ZodType<MergeSchedulePage> = z.object({
  items: z.array(MergeScheduleView),
  cursor,
});

/** The queue in numbers. */
export interface MergeStatsView {
  readonly keys: number;
  readonly due: number;
  readonly deadLetters: number;
  readonly endpoints: number;
  readonly oldestDueMs: number;
  readonly paused: boolean;
  readonly pausedKeys: number;
  readonly broken: number;
  readonly openBreakers: number;
}
export const MergeStatsView: z.ZodType<MergeStatsView> = z.object({
  keys: z.int().describe("Keys with items."),
  due: z.int(),
  deadLetters: z.int(),
  endpoints: z.int(),
  oldestDueMs: z.number().describe("How long the oldest due key has been due."),
  paused: z.boolean().describe("Whether an operator paused everything."),
  pausedKeys: z.int().describe("Keys that are paused one by one."),
  broken: z.int().describe("Keys that were set aside because their list is no list."),
  openBreakers: z.int().describe("Origins whose circuit breaker is open or half open."),
});
