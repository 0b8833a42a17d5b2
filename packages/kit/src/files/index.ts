/** `@ropeway/kit/files`: files for many receivers, through Redis with bounded memory. */
export { CorruptFileError, SourceChangedError, TransferGoneError } from "./errors.ts";
export { Files, type Published, type Received } from "./files.ts";
export type {
  FilesOptions,
  Progress,
  PublishOptions,
  ReceiveOptions,
  TransfersOptions,
} from "./options.ts";
export type { ReceivedFile } from "./received-file.ts";
export { saveTo } from "./save-to.ts";
export type { TransferView } from "./store.ts";
export { gunzip, lines } from "./streams.ts";
