// What the testkit has open in this process, and what it found wrong while closing it. The leak
// check reads both at the end of a test file.

/** Something a test started and has to close. */
export interface Opened {
  /** How a leak report names it. */
  describe(): string;
  close(): Promise<void>;
}

const opened = new Set<Opened>();
const findings: string[] = [];

/** From now on a test file that ends without closing `thing` fails. */
export function noteOpened(thing: Opened): void {
  opened.add(thing);
}

/** `thing` was closed as it should be. */
export function noteClosed(thing: Opened): void {
  opened.delete(thing);
}

/** Something was left behind that can no longer be seen later, such as a client of a closed server. */
export function noteFinding(text: string): void {
  findings.push(text);
}

/** What is still open, oldest first. */
export function stillOpen(): readonly Opened[] {
  return [...opened];
}

/** The findings since the last call. */
export function takeFindings(): string[] {
  return findings.splice(0);
}
