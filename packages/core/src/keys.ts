/**
 * Key names that stay together on Redis Cluster. Cluster hashes only the part of a key between its
 * first "{" and the next "}", if there is one: all keys of one atomic unit carry the same such tag.
 *
 *   unitPrefix("{shop}:jobs", "email")  ->  {shop}:jobs:email      the application chose the tag
 *   unitPrefix("jobs", "email")         ->  jobs:{email}           the unit's own name is the tag
 */
import { InvalidOptionError } from "./errors.ts";

const SLOTS = 16_384;

/**
 * The common prefix of all keys of one unit of atomicity. Braces in the unit's name are escaped, so
 * that any name works and different names never collide.
 */
export function unitPrefix(prefix: string, unit: string): string {
  checkPrefix(prefix);
  if (unit === "") throw new InvalidOptionError("name", unit, "a non-empty string");
  const name = unit.replace(/[{}%]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  return hashTag(prefix) === undefined ? `${prefix}:{${name}}` : `${prefix}:${name}`;
}

/** Throws InvalidOptionError for a prefix whose braces would put the keys of one unit into different slots. */
export function checkPrefix(prefix: string, option: string = "prefix"): void {
  const braced = prefix.includes("{") || prefix.includes("}");
  if (prefix === "" || (braced && hashTag(prefix) === undefined)) {
    throw new InvalidOptionError(
      option,
      prefix,
      'a non-empty string, with braces only around a hash tag, as in "{shop}"',
    );
  }
}

/** The part of a key that Cluster hashes, or undefined if that is the whole key. */
export function hashTag(key: string): string | undefined {
  const open = key.indexOf("{");
  if (open < 0) return undefined;
  const close = key.indexOf("}", open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : undefined;
}

/** The Cluster slot of a key: CRC16/XMODEM of its tag, or of the whole key. */
export function slotOf(key: string): number {
  const bytes = Buffer.from(hashTag(key) ?? key);
  let crc = 0;
  for (const byte of bytes) crc = ((crc << 8) ^ (CRC16[((crc >> 8) ^ byte) & 0xff] ?? 0)) & 0xffff;
  return crc % SLOTS;
}

const CRC16: Uint16Array = Uint16Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1;
  return crc & 0xffff;
});
