/**
 * A deadline that does not count pauses of this process as timeouts. Node runs timers before it reads from
 * sockets: after a long computation, or a SIGSTOP, a timer fires although the response is there already.
 * A timer that fires late is therefore given a moment more, in which the sockets are read.
 */

const LATE_MS = 100;
const GRACE_MS = 250;

/** A deadline under way. */
export interface Deadline {
  cancel(): void;
}

/** Calls `expired` after `ms`, unless cancelled. */
export function startDeadline(ms: number, expired: () => void): Deadline {
  const due = performance.now() + ms;
  let timer = setTimeout(() => {
    const late = performance.now() - due > LATE_MS;
    if (late) timer = setTimeout(expired, GRACE_MS);
    else expired();
  }, ms);
  return { cancel: () => clearTimeout(timer) };
}
