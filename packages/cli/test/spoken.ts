import { Readable } from "node:stream";
import { type CliWorld, runCli } from "../src/cli.ts";

/** What one run of the CLI inside this process printed and returned. */
export interface Spoken {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command line in this process. */
export async function speak(
  args: readonly string[],
  world: Partial<CliWorld> & { readonly terminal?: boolean } = {},
): Promise<Spoken> {
  const { terminal = false, ...rest } = world;
  const said = { stdout: "", stderr: "" };
  const sink = (name: keyof typeof said) => ({
    isTTY: terminal,
    write: (text: string) => {
      said[name] += text;
    },
  });
  const code = await runCli(args, {
    stdout: sink("stdout"),
    stderr: sink("stderr"),
    env: {},
    cwd: "/nonexistent",
    stdin: Readable.from([]),
    signal: new AbortController().signal,
    ...rest,
  });
  return { code, ...said };
}
