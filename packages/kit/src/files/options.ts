/** Options of file distribution. */
import {
  integer,
  type OptionTable,
  oneOf,
  optional,
  resolveOptions,
  satisfying,
  text,
} from "@ropeway/core/internal";
import { prefixSpec } from "../keyspace.ts";
import { type ListOptions, pageSpecs } from "../store/scan.ts";

/** The member of the room that sends, as documented. */
export const SENDER = "source";

/** How files are distributed. */
export interface FilesOptions {
  /** In front of every key; on Cluster it needs a hash tag, as in "{shop}". @default "" */
  readonly prefix?: string;
  /** How large a chunk is, 128 KiB to 1 MiB. @default 262144 */
  readonly chunkBytes?: number;
  /** How much of one file may be in Redis at a time. @default 16777216 */
  readonly limitBytes?: number;
  /** How long a receiver may be away before the file is finished without it. @default 60000 */
  readonly leaseMs?: number;
  /** How long an unfinished transfer is kept if its sender does not come back. @default 86400000 */
  readonly keepMs?: number;
}

/** How far a transfer is. */
export interface Progress {
  readonly name: string;
  /** Bytes sent, or received. */
  readonly bytes: number;
  /** Undefined while it is not known. */
  readonly total: number | undefined;
}

/** How one file is published. */
export interface PublishOptions {
  /** Who gets the file. `source` is the name of the sender, and no receiver. */
  readonly receivers: readonly string[];
  /** @default the name of the file, or the id */
  readonly name?: string | undefined;
  /** Names the transfer. The same id again resumes a transfer that was interrupted. @default a new one */
  readonly id?: string | undefined;
  /** `documented`: the whole content under one key, for programs that follow the documents. @default "chunks" */
  readonly wire?: "chunks" | "documented";
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** How files are received. */
export interface ReceiveOptions {
  /** Stop after this many files. @default until the channel ends */
  readonly files?: number | undefined;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Which transfers. */
export interface TransfersOptions extends Omit<ListOptions, "search"> {
  /** In front of every key. @default "" */
  readonly prefix?: string;
}

const signal = optional(
  satisfying<AbortSignal>("an AbortSignal", (value) => value instanceof AbortSignal),
);
const callback = optional(
  satisfying<(progress: Progress) => void>("a function", (value) => typeof value === "function"),
);
const MOST_RECEIVERS = 1_000;
const chunkSize = integer(131_072, 1_048_576);

/** Whether a chunk can be as large. Announcements come from outside. */
export function isChunkSize(bytes: unknown): bytes is number {
  return chunkSize.accepts(bytes);
}

const table: OptionTable<FilesOptions> = {
  prefix: prefixSpec,
  chunkBytes: { default: 262_144, rule: chunkSize },
  limitBytes: { default: 16_777_216, rule: integer(131_072) },
  leaseMs: { default: 60_000, rule: integer(50, 604_800_000) },
  keepMs: { default: 86_400_000, rule: integer(1_000) },
};

const publishTable: OptionTable<PublishOptions> = {
  receivers: {
    default: [],
    rule: satisfying(
      `an array of 1 to ${MOST_RECEIVERS} different names other than "${SENDER}"`,
      (value) => {
        return (
          Array.isArray(value) &&
          value.length > 0 &&
          value.length <= MOST_RECEIVERS &&
          value.every((one) => typeof one === "string" && one !== "" && one !== SENDER) &&
          new Set(value).size === value.length
        );
      },
    ),
  },
  name: { default: undefined, rule: optional(text) },
  id: { default: undefined, rule: optional(text) },
  wire: { default: "chunks", rule: oneOf("chunks", "documented") },
  onProgress: { default: undefined, rule: callback },
  signal: { default: undefined, rule: signal },
};

const receiveTable: OptionTable<ReceiveOptions> = {
  files: { default: undefined, rule: optional(integer(1)) },
  onProgress: { default: undefined, rule: callback },
  signal: { default: undefined, rule: signal },
};

const transfersTable: OptionTable<TransfersOptions> = { prefix: prefixSpec, ...pageSpecs };

export function resolveTransfersOptions(given?: TransfersOptions): Required<TransfersOptions> {
  return resolveOptions(transfersTable, given);
}

export function resolveFilesOptions(given?: FilesOptions): Required<FilesOptions> {
  return resolveOptions(table, given);
}

export function resolvePublishOptions(given: PublishOptions): Required<PublishOptions> {
  // An empty default would pass unnoticed.
  return resolveOptions(publishTable, { ...given, receivers: given?.receivers ?? (null as never) });
}

export function resolveReceiveOptions(given?: ReceiveOptions): Required<ReceiveOptions> {
  return resolveOptions(receiveTable, given);
}
