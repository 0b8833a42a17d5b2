// The servers, proxies and scripts that are open in this process, and the leaks found while closing
// them. The leak check reads both at the end of a test file.

/** Something a test started and has to close. */
export interface Opened {
  /** Its description in a leak report. */
  describe(): string;
  close(): Promise<void>;
}

const opened = new Set<Opened>();
const findings: string[] = [];

/** Makes the test file fail if it ends without closing `thing`. */
export function noteOpened(thing: Opened): void {
  opened.add(thing);
}

/** Records that `thing` was closed. */
export function noteClosed(thing: Opened): void {
  opened.delete(thing);
}

/** Records a leak that is not visible later, such as a client of a closed server. */
export function noteFinding(text: string): void {
  findings.push(text);
}

/** Everything that is still open, oldest first. */
export function stillOpen(): readonly Opened[] {
  return [...opened];
}

/** The leaks recorded since the last call. */
export function takeFindings(): string[] {
  return findings.splice(0);
}
