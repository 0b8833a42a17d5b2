/**
 * Ctrl-C and its relatives. The first one asks: `signal` aborts, and the command ends in its own way.
 * Another one insists: the process exits at once.
 *
 * One Ctrl-C can arrive twice, from the terminal and again from npm, which forwards what it gets to
 * its children; so insisting counts only after a pause that no machine takes and every person does.
 */
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
const SAME_KEYSTROKE_MS = 700;

/** Listens from now on; the reason of the abort is the signal's name. */
export function watchInterruption(): AbortSignal {
  const controller = new AbortController();
  let asked = 0;
  for (const [name, number] of Object.entries(SIGNALS)) {
    process.on(name, () => {
      if (!controller.signal.aborted) {
        asked = performance.now();
        controller.abort(name);
      } else if (performance.now() - asked > SAME_KEYSTROKE_MS) {
        process.exit(128 + number);
      }
    });
  }
  return controller.signal;
}
