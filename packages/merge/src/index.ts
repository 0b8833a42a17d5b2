/** Public door of the merge queue. */
export type { ResolvedAddress, Resolver } from "./address-guard.ts";
export type { Handling } from "./courier.ts";
export { type HttpDeliveryOptions, HttpDispatcher } from "./delivery.ts";
export { Dispatcher, type Handler } from "./dispatcher.ts";
export type { DispatcherOptions } from "./dispatcher-options.ts";
export type { Endpoint } from "./endpoint-health.ts";
export {
  BlockedTargetError,
  InvalidArgumentError,
  InvalidKeyError,
  LeaseLostError,
  LockedError,
  OutOfMemoryError,
  TooManyPausedError,
  UnknownEndpointError,
  UnknownLetterError,
  WebhookVerificationError,
} from "./errors.ts";
export {
  type DeadLetter,
  Inspector,
  type ListOptions,
  type MergeStats,
  type Page,
  type PeekedKey,
  type PendingKey,
} from "./inspector.ts";
export type { Item } from "./item.ts";
export type { MergeQueueOptions } from "./options.ts";
export {
  type Batch,
  type GetOptions,
  MergeQueue,
  type PushItem,
  type PushOptions,
  type ReleaseOptions,
  type Scheduled,
  type WaitOptions,
} from "./queue.ts";
export type { Pushed, Removed } from "./scripts.ts";
export { type ReceivedHeaders, type VerifyOptions, verifyWebhook } from "./signature.ts";
export { encodeService, keyOf, readTarget, type Target } from "./target.ts";
export type { Verdict } from "./verdict.ts";
