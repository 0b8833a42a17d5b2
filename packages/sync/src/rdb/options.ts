/** Options of the RDB reader. */
import { flag, integer, type OptionTable } from "@ropeway/core/internal";

/** Memory limits, and the sizes up to which values are returned whole. */
export interface RdbReaderOptions {
  /** The decoded size up to which a value is returned whole, with its raw bytes. @default 2097152 */
  readonly maxRawBytes?: number;
  /** The number of elements up to which a value is returned whole. @default 50000 */
  readonly maxRawElements?: number;
  /**
   * The largest single element held in memory. Throws ElementTooLargeError for a larger one. The default is the largest
   * that servers accept unless their `proto-max-bulk-len` is changed. @default 536870912
   */
  readonly maxElementBytes?: number;
  /** The number of elements in one part of a large value. @default 1000 */
  readonly partElements?: number;
  /** The size in bytes at which a part is returned even if it has fewer elements. @default 262144 */
  readonly partBytes?: number;
  /** Whether the CRC64 of the file is verified. @default true */
  readonly checksum?: boolean;
}

const MIB = 1024 * 1024;

export const rdbReaderOptions: OptionTable<RdbReaderOptions> = {
  maxRawBytes: { default: 2 * MIB, rule: integer(1, 512 * MIB) },
  maxRawElements: { default: 50_000, rule: integer(1) },
  maxElementBytes: { default: 512 * MIB, rule: integer(1, 4096 * MIB - 1) },
  partElements: { default: 1000, rule: integer(1, 1_000_000) },
  // LZF refers to the last 8192 bytes, which must not span more than two parts.
  partBytes: { default: MIB / 4, rule: integer(8192, 64 * MIB) },
  checksum: { default: true, rule: flag },
};
