/** `@ropeway/kit/mailbox`: messages for one recipient, kept until it acknowledges them. */
export type { Delivery } from "./delivery.ts";
export type { DeadLetter, Envelope, UnreadableLetter } from "./envelope.ts";
export {
  InvalidArgumentError,
  LeaseLostError,
  OutOfMemoryError,
  OverloadedError,
} from "./errors.ts";
export { Mailbox, type MailboxCounts } from "./mailbox.ts";
export type { MailboxOptions, PageOptions, ReceiveOptions, SendOptions } from "./options.ts";
