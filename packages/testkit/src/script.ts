import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { TestkitError } from "./errors.ts";
import type { LineLog } from "./line-log.ts";
import { noteClosed, noteOpened, type Opened } from "./registry.ts";
import { type Exit, WatchedProcess } from "./watched-process.ts";

/** Options of a script. */
export interface ScriptOptions {
  readonly args?: readonly string[];
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * Runs a TypeScript file in its own Node process, with the sources of our packages, as in
 * `spawnScript(new URL("./worker.fixture.ts", import.meta.url))`.
 */
export async function spawnScript(file: URL, options: ScriptOptions = {}): Promise<Script> {
  const { args = [], env = {} } = options;
  const loader = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
  const node = [process.execPath, "--conditions=@ropeway/source", "--import", loader];
  const child = await WatchedProcess.start([...node, fileURLToPath(file), ...args], { env });
  return new Script(child, file);
}

/**
 * Runs a script that exits by itself, such as an example, and returns the lines it printed. Throws
 * `SCRIPT_FAILED` with its output if it fails.
 */
export async function runScript(file: URL, options?: ScriptOptions): Promise<string[]> {
  await using script = await spawnScript(file, options);
  const { code, signal } = await script.exited;
  if (code !== 0) {
    const how = signal ?? `code ${code}`;
    const message = `${script.describe()} ended with ${how}; its output:\n${script.log()}`;
    throw new TestkitError("SCRIPT_FAILED", message);
  }
  const printed: string[] = [];
  for await (const line of script.lines) printed.push(line);
  return printed;
}

/** A running script. */
export class Script implements Opened, AsyncDisposable {
  readonly #process: WatchedProcess;
  readonly #file: URL;
  #searchFrom = 0;

  constructor(child: WatchedProcess, file: URL) {
    this.#process = child;
    this.#file = file;
    noteOpened(this);
    void child.exited.then(() => noteClosed(this));
  }

  get pid(): number {
    return this.#process.pid;
  }

  get running(): boolean {
    return this.#process.running;
  }

  /** Resolves when the process has ended, with a code or by a signal. */
  get exited(): Promise<Exit> {
    return this.#process.exited;
  }

  /** All its lines on standard output. Each iteration starts at the first line. */
  get lines(): LineLog {
    return this.#process.stdout;
  }

  /** Waits for the next matching line on standard output, after the previous match. */
  async waitForLine(
    pattern: RegExp,
    { withinMs = 30_000 }: { withinMs?: number } = {},
  ): Promise<RegExpMatchArray> {
    const from = this.#searchFrom;
    const { match, index } = await this.#process.stdout
      .find(pattern, { from, withinMs })
      .catch((error: Error) => {
        error.message += `\nall output:\n${this.log()}`;
        throw error;
      });
    this.#searchFrom = Math.max(this.#searchFrom, index + 1);
    return match;
  }

  /** Writes one line to its standard input. */
  send(line: string): void {
    this.#process.stdin.write(`${line}\n`);
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.signal(signal);
  }

  /** Sends SIGKILL and waits for the exit. */
  kill9(): Promise<Exit> {
    return this.#process.kill9();
  }

  /** Sends SIGTERM and waits for the exit. Sends SIGKILL after `withinMs`. */
  terminate(withinMs?: number): Promise<Exit> {
    return this.#process.terminate(withinMs);
  }

  /** Sends SIGSTOP. Its sockets stay open. */
  pause(): void {
    this.signal("SIGSTOP");
  }

  /** Sends SIGCONT. */
  resume(): void {
    this.signal("SIGCONT");
  }

  /** The last lines of both outputs. */
  log(): string {
    return this.#process.log.tail();
  }

  describe(): string {
    return `script ${fileURLToPath(this.#file)} (pid ${this.pid})`;
  }

  /** Kills it if it is still running. */
  async close(): Promise<void> {
    await this.#process.kill9();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
