/** The public exports of sync. */

export { type ReadAofOptions, readAof } from "./aof/read.ts";
export type { AofItem } from "./aof/reader.ts";
export type { Position } from "./checkpoint.ts";
export {
  type Dumpable,
  type DumpedValue,
  dumpPayload,
  footerVersion,
  lowestVersion,
  readDump,
} from "./dump/payload.ts";
export type { DiscardedRecord } from "./error-budget.ts";
export {
  AofFormatError,
  CommandRefusedError,
  DumpPayloadError,
  ElementTooLargeError,
  HistoryLostError,
  KeyExistsError,
  NotExpressibleError,
  PsyncRefusedError,
  RdbChecksumError,
  RdbFormatError,
  RdbTruncatedError,
  RespFormatError,
  ResyncRequiredError,
  SourceFileError,
  SourceNotReadyError,
  SpoolError,
  TargetFileError,
  TargetRefusedError,
  TargetRewoundError,
  TooManyErrorsError,
  TransformError,
  type UnsupportedRdb,
  UnsupportedRdbError,
} from "./errors.ts";
export type { ExpiryBucket } from "./inspect/expiry-histogram.ts";
export {
  type InspectOptions,
  type KeySum,
  RdbInspector,
  type RdbSummary,
} from "./inspect/inspector.ts";
export { JsonLines } from "./inspect/json-lines.ts";
export type { PrefixSum } from "./inspect/prefix-table.ts";
export type { TopKey } from "./inspect/top-keys.ts";
export type { KeyFilterOptions, KeyRule } from "./key-filter.ts";
export type { BigKeyRecord } from "./load/big-key-record.ts";
export type { SyncFilterOptions } from "./mapping.ts";
export type { SyncMode, SyncOptions } from "./options.ts";
export {
  check,
  type PreflightOptions,
  type PreflightReport,
} from "./preflight/check.ts";
export type { Finding } from "./preflight/finding.ts";
export { type KeyReason, SYNC_STATUS, type SyncProgress, type SyncStatus } from "./progress.ts";
export {
  type RdbAux,
  type RdbBegin,
  type RdbEnd,
  type RdbEntry,
  type RdbEof,
  type RdbFamily,
  type RdbFunction,
  type RdbHeader,
  RdbKey,
  type RdbKeyAttributes,
  type RdbKeyPlace,
  type RdbModuleAux,
  type RdbPart,
  type RdbResize,
  type RdbSelect,
  type RdbSlot,
  type RdbSlotImport,
} from "./rdb/entry.ts";
export type { RdbReaderOptions } from "./rdb/options.ts";
export { RdbReader } from "./rdb/reader.ts";
export type { PartBounds } from "./rdb/walk.ts";
export { WireCommand } from "./resp/command-reader.ts";
export { type SyncEvents, SyncTask } from "./task.ts";
export type { Transform, TransformInput, TransformResult } from "./transform.ts";
export { decodeValue, type RawValue } from "./value/decode.ts";
export { digestOf, ValueDigest } from "./value/digest.ts";
export type {
  ArrayPart,
  HashPart,
  ListPart,
  ModulePart,
  PendingEntry,
  SetPart,
  StreamConsumer,
  StreamEntry,
  StreamGroup,
  StreamId,
  StreamIdempotency,
  StreamInfo,
  StreamPart,
  StringPart,
  ValuePart,
  ValueType,
  ZsetPart,
} from "./value/part.ts";
export type { Difference, DifferenceReason, VerifyReport } from "./verify/verifier.ts";
export { type VerifyOptions, verify } from "./verify/verify.ts";
