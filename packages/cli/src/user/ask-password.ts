/**
 * A new password, from a person or from a pipe; never from the command line, which everyone on the
 * machine can read and the shell remembers.
 */
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";

/** Asks twice on a terminal, without showing what is typed; else takes the first line. */
export async function askPassword(username: string, context: Context): Promise<string> {
  const { stdin: input, output, signal } = context;
  const terminal = input.isTTY === true;
  // On a terminal readline echoes to its output: so its output is discarded, and the questions are printed here.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const reader = createInterface({ input, output: nowhere, terminal, signal });
  // In raw mode the terminal sends no signal for Ctrl-C, so we do.
  reader.on("SIGINT", () => process.kill(process.pid, "SIGINT"));
  const lines = reader[Symbol.asyncIterator]();
  const answer = async (): Promise<string> => {
    const { done, value } = await lines.next();
    if (terminal) output.prompt("\n"); // the line feed was not echoed
    signal.throwIfAborted();
    if (!done) return value;
    throw new UsageError("no password was given: type one, or send one line to standard input");
  };
  try {
    if (!terminal) return await answer();
    output.prompt(`New password for ${username}: `);
    const first = await answer();
    if (first === "") return first; // refused anyway: nothing to confirm
    output.prompt("Once more: ");
    const second = await answer();
    if (first !== second) throw new UsageError("the two passwords are not the same");
    return first;
  } finally {
    reader.close();
  }
}
