/**
 * Standard input in place of an argument. One rule for the whole program: `-` as a payload (a job's data, a
 * body, params, a message, --options) takes all of standard input, and `-` as an address takes one line of
 * it (see secret-address.ts).
 */
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
    const end = "end it with Ctrl-D on a line of its own";
    output.prompt(`Reading ${what} from standard input; ${end}.\n`);
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

/** A payload as it was given, or all of standard input for `-`; the last line break is not part of it. */
export async function payloadOf(context: Context, given: string, what: string): Promise<string> {
  if (given !== "-") return given;
  return (await readInput(context, what)).toString("utf8").replace(/\r?\n$/, "");
}
