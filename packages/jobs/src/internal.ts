/** Exports for our own packages only. They can change in any release. */
export { DEFAULT_PREFIX, type QueueKeys, queueKeys, queuesKey } from "./keys.ts";
export { METRICS } from "./metrics.ts";
export { AdminStore } from "./store/admin-store.ts";
export {
  type Ended,
  type Exchange,
  type NewJob,
  QueueStore,
  type Taken,
} from "./store/queue-store.ts";
