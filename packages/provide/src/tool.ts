// Runs a command to its end. An aborted run ends only with its process, because callers then remove the
// folder that it wrote to.
import { spawn } from "node:child_process";
import { StepFailedError } from "./errors.ts";

const GRACE_MS = 2_000;

export interface ToolOptions {
  readonly signal: AbortSignal;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

export interface ToolResult {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a command and returns its output, whatever its exit code. Throws if it cannot start or was aborted. */
export async function runTool(
  [file, ...args]: readonly [string, ...string[]],
  { signal, env, cwd }: ToolOptions,
): Promise<ToolResult> {
  signal.throwIfAborted();
  const child = spawn(file, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  for (const stream of ["stdout", "stderr"] as const) {
    child[stream].setEncoding("utf8").on("data", (chunk: string) => {
      output[stream] += chunk;
    });
  }
  let insist: NodeJS.Timeout | undefined;
  const stop = () => {
    child.kill("SIGTERM");
    insist = setTimeout(() => child.kill("SIGKILL"), GRACE_MS);
  };
  signal.addEventListener("abort", stop, { once: true });
  try {
    const code = await new Promise<number | null>((ended, failed) => {
      child.once("error", failed);
      // "close" waits for the pipes, which child processes of a stopped tool may still hold.
      child.once("close", ended);
      child.once("exit", (exitCode) => signal.aborted && ended(exitCode));
    });
    signal.throwIfAborted();
    return { code, ...output };
  } finally {
    clearTimeout(insist);
    signal.removeEventListener("abort", stop);
    child.stdout.destroy();
    child.stderr.destroy();
  }
}

/** Runs a command that must succeed. The last lines of its output become the error. */
export async function mustRun(
  command: readonly [string, ...string[]],
  options: ToolOptions,
): Promise<string> {
  const { code, stdout, stderr } = await runTool(command, options);
  if (code === 0) return stdout;
  const words = stderr.trim().split("\n").at(-1) || `exit code ${code}`;
  throw new StepFailedError(`${command[0]} failed: ${words}`);
}
