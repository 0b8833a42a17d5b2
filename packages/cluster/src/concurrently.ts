/** Work on many items with a bound on how many are under way. */

/**
 * Calls `work` for each item, at most `most` at the same time. After a failure it begins no further item, and
 * rejects with that failure as soon as the items under way have ended.
 */
export async function concurrently<T>(
  items: Iterable<T>,
  most: number,
  work: (item: T) => Promise<unknown>,
): Promise<void> {
  const rest = [...items].reverse();
  const failures: unknown[] = [];
  const turn = async () => {
    while (rest.length > 0 && failures.length === 0) {
      await work(rest.pop() as T).catch((error) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: Math.min(most, rest.length) }, turn));
  if (failures.length > 0) throw failures[0];
}
