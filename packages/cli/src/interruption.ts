/**
 * Ctrl-C and SIGTERM. The first one aborts `signal`, and the command ends by itself. Another one
 * exits the process at once.
 *
 * Two workarounds for npm. One Ctrl-C can arrive twice, from the terminal and again from npm, which
 * forwards what it gets; so a second one counts only after a pause that is longer than npm's and shorter
 * than a person's. And a SIGTERM to npm ends npm and the shell it started us with, but never reaches us;
 * so below npm the loss of our parent is a SIGTERM.
 */
const SIGNALS = { SIGHUP: 1, SIGINT: 2, SIGTERM: 15 } as const;
const SAME_KEYSTROKE_MS = 700;
const LOOK_FOR_PARENT_MS = 500;

/** Listens from now on; the reason of the abort is the signal's name. */
export function watchInterruption(env: NodeJS.ProcessEnv): AbortSignal {
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
  if (env.npm_lifecycle_event !== undefined) watchParent(() => controller.abort("SIGTERM"));
  return controller.signal;
}

/** Calls `lost` when the process that started us is gone; does not keep this one alive. */
function watchParent(lost: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    lost();
  }, LOOK_FOR_PARENT_MS);
  timer.unref();
}
