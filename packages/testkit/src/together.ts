/** Waits for all starts. If one fails, closes the others and throws its error. */
export async function together<T extends { close(): Promise<void> }>(
  starts: readonly Promise<T>[],
): Promise<T[]> {
  const outcomes = await Promise.allSettled(starts);
  const started = outcomes.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  const failed = outcomes.find((one) => one.status === "rejected");
  if (failed === undefined) return started;
  await Promise.all(started.map((one) => one.close()));
  throw failed.reason;
}

/** Runs `work` on `started`. If it fails, closes `started` and throws. */
export async function orClose<T extends { close(): Promise<void> }>(
  started: T,
  work: (started: T) => Promise<unknown>,
): Promise<T> {
  try {
    await work(started);
    return started;
  } catch (error) {
    await started.close();
    throw error;
  }
}
