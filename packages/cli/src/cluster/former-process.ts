/** Starting again after a crash, while the record of the crashed process is still in the cluster. */
import { NodeIdTakenError } from "@ropeway/cluster";
import { sleep } from "@ropeway/core/internal";

const AGAIN_MS = 250;

/**
 * Starts what registers in the cluster. The record of a crashed process stays until its lease has
 * ended: this waits for that once. Throws NodeIdTakenError if the id is still in use then.
 */
export async function startAfterFormer<T>(leaseMs: number, start: () => Promise<T>): Promise<T> {
  const until = performance.now() + leaseMs * 1.5 + 1_000;
  for (;;) {
    try {
      return await start();
    } catch (error) {
      if (!(error instanceof NodeIdTakenError) || performance.now() > until) throw error;
      await sleep(AGAIN_MS);
    }
  }
}
