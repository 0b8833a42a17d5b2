// A vitest global setup: the servers are there before the first test needs one, so that no test's
// own timeout has to cover a download. Where one cannot be had this says so once, and only the
// tests that start it fail, with the same sentence.
import { provideAll } from "@ropeway/provide";
import { provideOptions } from "./program.ts";

/** Called by vitest before any test file runs. */
export async function setup(): Promise<void> {
  const say = (sentence: string) => process.stderr.write(`${sentence}\n`);
  const options = { ...provideOptions(), onProgress: say };
  await provideAll(["redis-server", "etcd"], options).catch((error: Error) => say(error.message));
}
