/** The messages that a client writes to a worker's control list. */

/** Cancels a call. */
export function cancelText(id: string): string {
  return JSON.stringify({ id, cancel: true });
}
