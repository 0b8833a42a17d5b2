/** Entries between the keys: fields of the server, its databases, functions and modules. */
import type { RdbEntry, RdbFamily } from "./entry.ts";
import { moduleName, nextOpcode } from "./module-walk.ts";
import { OPCODE, whyUnread } from "./opcode.ts";
import { MORE, type RdbBuffer } from "./rdb-buffer.ts";

const SLOTS = 16_384;
const MOST_META_CLASSES = 7;

/** Whether the opcode describes the key that follows. */
export function isAttribute(code: number, family: RdbFamily): boolean {
  if (code === OPCODE.META) return family === "redis";
  return (
    code === OPCODE.EXPIRY_MS ||
    code === OPCODE.EXPIRY_S ||
    code === OPCODE.IDLE ||
    code === OPCODE.FREQ
  );
}

/** Reads the body of an opcode at `pos`; undefined if bytes are missing. */
export function readInfo(buffer: RdbBuffer, code: number): RdbEntry | undefined {
  switch (code) {
    case OPCODE.AUX:
      return readAux(buffer);
    case OPCODE.SELECT: {
      const db = buffer.count();
      return db === MORE ? undefined : { kind: "select", db };
    }
    case OPCODE.RESIZE: {
      const keys = buffer.count();
      const expires = keys === MORE ? MORE : buffer.count();
      return expires === MORE ? undefined : { kind: "resize", keys, expires };
    }
    case OPCODE.SLOT_INFO:
      return readSlot(buffer);
    case OPCODE.FUNCTION: {
      const code = buffer.string();
      return code === undefined ? undefined : { kind: "function", code };
    }
    case OPCODE.META:
      return readSlotImport(buffer);
    default:
      buffer.pos--;
      throw buffer.unsupported("opcode", code, whyUnread(code));
  }
}

function readAux(buffer: RdbBuffer): RdbEntry | undefined {
  const name = buffer.string();
  const value = name === undefined ? undefined : buffer.string();
  if (name === undefined || value === undefined) return undefined;
  return { kind: "aux", name: name.toString("latin1"), value };
}

function readSlot(buffer: RdbBuffer): RdbEntry | undefined {
  const slot = buffer.count();
  const keys = slot === MORE ? MORE : buffer.count();
  const expires = keys === MORE ? MORE : buffer.count();
  if (expires === MORE) return undefined;
  if (slot >= SLOTS) throw buffer.malformed(`slot ${slot}`);
  return { kind: "slot", slot, keys, expires };
}

function readSlotImport(buffer: RdbBuffer): RdbEntry | undefined {
  const job = buffer.string();
  const count = job === undefined ? MORE : buffer.count();
  if (job === undefined || count === MORE) return undefined;
  if (count > SLOTS) throw buffer.malformed(`${count} slot ranges`);
  const ranges: [number, number][] = [];
  while (ranges.length < count) {
    const first = buffer.count();
    const last = first === MORE ? MORE : buffer.count();
    if (last === MORE) return undefined;
    if (last >= SLOTS || first > last) throw buffer.malformed(`slots ${first} to ${last}`);
    ranges.push([first, last]);
  }
  return { kind: "slot-import", job, ranges };
}

/**
 * Moves past a KEY_META block: a number of classes, each with 4 bytes and a sequence of module opcodes.
 * Returns false if bytes are missing.
 */
export function skipMeta(buffer: RdbBuffer): boolean {
  const classes = buffer.count();
  if (classes === MORE) return false;
  if (classes > MOST_META_CLASSES) throw buffer.malformed(`${classes} classes of key metadata`);
  for (let left = classes; left > 0; left--) {
    if (!buffer.skip(4)) return false;
    for (let opcode = nextOpcode(buffer); opcode !== 0; opcode = nextOpcode(buffer)) {
      if (opcode === MORE) return false;
      if (buffer.pos - buffer.start > buffer.maxElementBytes) {
        throw buffer.malformed("key metadata without end");
      }
    }
  }
  return true;
}

/** Moves past the data of a module, releases it, and returns the entry. */
export function* walkModuleAux(buffer: RdbBuffer): Generator<undefined, RdbEntry> {
  const begin = buffer.offset;
  let id = buffer.bigLength();
  for (; id === undefined; id = buffer.bigLength()) yield;
  let opcode = buffer.length();
  for (; opcode === MORE; opcode = buffer.length()) yield;
  if (opcode !== 2) throw buffer.malformed(`module opcode ${opcode} instead of 2`);
  let when = buffer.length();
  for (; when === MORE; when = buffer.length()) yield;
  do {
    buffer.start = buffer.pos;
    opcode = nextOpcode(buffer);
    if (opcode === MORE) yield;
  } while (opcode !== 0);
  return { kind: "module-aux", module: moduleName(id), when, bytes: buffer.offset - begin };
}
