/**
 * Patterns as KEYS and SCAN take them: `*`, `?`, `[abc]`, `[^a]`, `[a-z]`, `\` before a character that means
 * itself. Works on bytes, because keys are bytes. Takes at most pattern x key steps.
 */

/** Whether `key` matches `pattern`. */
export function matchesGlob(pattern: Buffer, key: Buffer): boolean {
  let p = 0;
  let k = 0;
  // Where to continue when the part after the last star does not match.
  let starP = -1;
  let starK = 0;
  while (k < key.length) {
    if (p < pattern.length && pattern[p] === STAR) {
      starP = p++;
      starK = k;
      continue;
    }
    const next = p < pattern.length ? matchOne(pattern, p, key[k] as number) : -1;
    if (next >= 0) {
      p = next;
      k++;
    } else if (starP >= 0) {
      p = starP + 1;
      k = ++starK;
    } else {
      return false;
    }
  }
  while (pattern[p] === STAR) p++;
  return p === pattern.length;
}

/** The position after the pattern's next element if it matches the byte, else -1. */
function matchOne(pattern: Buffer, at: number, byte: number): number {
  const first = pattern[at] as number;
  if (first === QUESTION) return at + 1;
  if (first === OPEN) return matchClass(pattern, at + 1, byte);
  const escaped = first === BACKSLASH && at + 1 < pattern.length;
  return pattern[escaped ? at + 1 : at] === byte ? at + (escaped ? 2 : 1) : -1;
}

function matchClass(pattern: Buffer, from: number, byte: number): number {
  let at = from;
  const negated = pattern[at] === CARET;
  if (negated) at++;
  let found = false;
  while (at < pattern.length && pattern[at] !== CLOSE) {
    if (pattern[at] === BACKSLASH && at + 1 < pattern.length) at++;
    else if (pattern[at + 1] === DASH && at + 2 < pattern.length) {
      const [a, b] = [pattern[at] as number, pattern[at + 2] as number];
      if (byte >= Math.min(a, b) && byte <= Math.max(a, b)) found = true;
      at += 3;
      continue;
    }
    if (pattern[at] === byte) found = true;
    at++;
  }
  // Without a closing bracket the class extends to the end, as in Redis.
  return found !== negated ? Math.min(at + 1, pattern.length) : -1;
}

const STAR = 0x2a;
const QUESTION = 0x3f;
const OPEN = 0x5b;
const CLOSE = 0x5d;
const CARET = 0x5e;
const DASH = 0x2d;
const BACKSLASH = 0x5c;
