/** The opcodes that can take the place of a key's type. */
export const OPCODE = {
  /** Redis: KEY_META, attributes of the next key. Valkey: SLOT_IMPORT. */
  META: 243,
  SLOT_INFO: 244,
  FUNCTION: 245,
  FUNCTION_DRAFT: 246,
  MODULE_AUX: 247,
  IDLE: 248,
  FREQ: 249,
  AUX: 250,
  RESIZE: 251,
  EXPIRY_MS: 252,
  EXPIRY_S: 253,
  SELECT: 254,
  EOF: 255,
} as const;

/** Why an opcode cannot be read, for the error. */
export function whyUnread(opcode: number): string {
  if (opcode === 242) return "its layout (Redis 8.10, Valkey 9.2) is not confirmed";
  if (opcode === OPCODE.FUNCTION_DRAFT) return "only release candidates of Redis 7.0 wrote it";
  if (opcode >= 100 && opcode <= 121) return "only Redis Enterprise writes it";
  return "the opcode is unknown";
}
