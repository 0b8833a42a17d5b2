/** Exports for our own packages only. They can change in any release. */
export { checkJson } from "./admin/endpoint-queue.ts";
export { LATENESS_BOUNDS_MS } from "./delivery/attempt-log.ts";
export { signingKey } from "./delivery/signature.ts";
export { checkKey, MergeKeys } from "./keys.ts";
export { INSTRUMENTS } from "./metrics.ts";
export {
  checkMergeKey,
  checkMethod,
  checkUrl,
  decodeService,
  isSingle,
  METHODS,
} from "./queue/destination.ts";
