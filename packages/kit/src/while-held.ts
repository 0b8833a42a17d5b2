/** Work that is done while something is held. */

/** The result of `work`. What is held is released in any case. If both fail, the error of `work` is thrown. */
export async function whileHeld<H extends { release(): Promise<unknown> }, T>(
  held: H,
  work: (held: H) => T | Promise<T>,
): Promise<T> {
  let result: T;
  try {
    result = await work(held);
  } catch (error) {
    await held.release().catch(() => {}); // the caller learns why the work failed; the lease ends by itself
    throw error;
  }
  await held.release();
  return result;
}
