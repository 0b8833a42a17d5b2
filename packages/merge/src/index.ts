/** The public exports of the merge queue. */

export { type Attempt, type AttemptFilter, Attempts, type MergeTotals } from "./admin/attempts.ts";
export {
  type DeadLetter,
  DeadLetters,
  type LetterFilter,
  type LetterRetention,
  type LetterTotals,
} from "./admin/dead-letters.ts";
export {
  EndpointQueue,
  type PeekDestinationOptions,
  type PeekedDestination,
} from "./admin/endpoint-queue.ts";
export { type EndpointLimits, Endpoints, type RotateOptions } from "./admin/endpoints.ts";
export {
  Inspector,
  type ListOptions,
  type MergeStats,
  type PeekedItem,
  type PeekedKey,
  type PeekOptions,
  type PendingKey,
  type Removed,
} from "./admin/inspector.ts";
export type { PageOptions } from "./admin/paging.ts";
export { AddressGuard, type ResolvedAddress, type Resolver } from "./delivery/address-guard.ts";
export type { LoggedAttempt } from "./delivery/attempt-log.ts";
export type { RetryBackoff } from "./delivery/backoff.ts";
export type { CallbackBody } from "./delivery/callbacks.ts";
export {
  Dispatcher,
  type DispatcherEvents,
  type Handler,
  type Handling,
} from "./delivery/dispatcher.ts";
export type { BeforeDead, DispatcherOptions } from "./delivery/dispatcher-options.ts";
export {
  type BreakerOptions,
  HttpDispatcher,
  type HttpDispatcherOptions,
} from "./delivery/http-dispatcher.ts";
export { type ReceivedHeaders, type VerifyOptions, verifyWebhook } from "./delivery/signature.ts";
export type { Verdict } from "./delivery/verdict.ts";
export {
  BlockedEndpointError,
  IdempotencyMismatchError,
  LockedError,
  TooManyEndpointsError,
  TooManyPausedError,
  TooManySchedulesError,
  UnknownEndpointError,
  UnknownLetterError,
  UnknownScheduleError,
  WebhookVerificationError,
} from "./errors.ts";
export type { MergeKeys } from "./keys.ts";
export type { DeliveryRequest } from "./queue/delivery-request.ts";
export {
  type Destination,
  destination,
  destinationOf,
  encodeService,
  keyOf,
} from "./queue/destination.ts";
export type { Item } from "./queue/item.ts";
export type { MergeQueueOptions, ResolvedQueueOptions } from "./queue/options.ts";
export {
  type Batch,
  type GetOptions,
  MergeQueue,
  type Pushed,
  type PushItem,
  type PushOptions,
  type ReleaseOptions,
  type Scheduled,
  type WaitOptions,
} from "./queue/queue.ts";
export type { CheckedSchedule, Schedule, ScheduleTimes } from "./schedule/schedule.ts";
export { Scheduler, type SchedulerEvents } from "./schedule/scheduler.ts";
export { Schedules, type ScheduleView } from "./schedule/schedules.ts";
export type { Endpoint } from "./store/endpoint-store.ts";
