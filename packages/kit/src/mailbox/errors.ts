/** Errors of mailboxes: all of them are core's. */
export {
  InvalidArgumentError,
  LeaseLostError,
  OutOfMemoryError,
  OverloadedError,
} from "@ropeway/core";
