// A vitest global setup that provides the servers before the first test, so that no test's timeout
// has to cover a download. If a server is not available, this prints the reason once, and only the
// tests that start it fail, with the same message.
import { provideAll } from "@ropeway/provide";
import { provideOptions } from "./program.ts";

/** Called by vitest before any test file runs. */
export async function setup(): Promise<void> {
  const say = (sentence: string) => process.stderr.write(`${sentence}\n`);
  const options = { ...provideOptions(), onProgress: say };
  await provideAll(["redis-server", "etcd"], options).catch((error: Error) => say(error.message));
}
