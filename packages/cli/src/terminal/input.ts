/** Standard input as a command's argument. */
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";

/** The most that is read; an item or a job is far smaller. */
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * All of standard input. On a terminal, a note says that the command waits for input and how to end
 * the input; `what` names what is read, such as "the body". Ctrl-C ends the wait.
 */
export async function readInput({ stdin, output, signal }: Context, what: string): Promise<Buffer> {
  if (stdin.isTTY === true) {
    output.note(`Reading ${what} from standard input; end it with Ctrl-D on a line of its own.`);
  }
  const abort = () => stdin.destroy(signal.reason instanceof Error ? signal.reason : undefined);
  signal.addEventListener("abort", abort, { once: true });
  try {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of stdin) {
      chunks.push(Buffer.from(chunk));
      bytes += chunks.at(-1)?.length ?? 0;
      if (bytes > MAX_BYTES) throw new UsageError(`${what} is larger than ${MAX_BYTES} bytes`);
    }
    signal.throwIfAborted();
    return Buffer.concat(chunks);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
