import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { TestkitError } from "./errors.ts";
import type { LineLog } from "./line-log.ts";
import { noteClosed, noteOpened, type Opened } from "./registry.ts";
import { type Exit, WatchedProcess } from "./watched-process.ts";

/** What a script is given. */
export interface ScriptOptions {
  readonly args?: readonly string[];
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * Runs a TypeScript file in a Node process of its own, reading our packages' sources as the tests
 * do: `spawnScript(new URL("./worker.fixture.ts", import.meta.url))`.
 */
export async function spawnScript(file: URL, options: ScriptOptions = {}): Promise<Script> {
  const { args = [], env = {} } = options;
  const loader = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
  const node = [process.execPath, "--conditions=@ropeway/source", "--import", loader];
  const child = await WatchedProcess.start([...node, fileURLToPath(file), ...args], { env });
  return new Script(child, file);
}

/**
 * Runs a script that ends by itself, such as an example, and gives the lines it printed. Throws with its
 * whole output if it fails.
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

  /** Resolves when the process has ended, however it did. */
  get exited(): Promise<Exit> {
    return this.#process.exited;
  }

  /** Its lines on standard output, from the first on; each loop over it starts anew. */
  get lines(): LineLog {
    return this.#process.stdout;
  }

  /** The next matching line on standard output after the one this found last. */
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

  /** SIGKILL, and waits until it is gone. */
  kill9(): Promise<Exit> {
    return this.#process.kill9();
  }

  /** SIGTERM, and waits for its own orderly end; SIGKILL after `withinMs`. */
  terminate(withinMs?: number): Promise<Exit> {
    return this.#process.terminate(withinMs);
  }

  /** SIGSTOP: it keeps its sockets and does nothing. */
  pause(): void {
    this.signal("SIGSTOP");
  }

  /** SIGCONT: it goes on as if no time had passed. */
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

  /** Kills it unless it has ended by itself. */
  async close(): Promise<void> {
    await this.#process.kill9();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
