/**
 * A forked Node process that handles requests over the IPC channel of fork():
 *
 *   parent                              child: serve(start)
 *   Remote.fork(file, config)  ----->   start(config) -> Verbs
 *   ask(verb, value)           ----->   verbs[verb](value)  -----> its value, or its error
 *   cpu()                      ----->   CPU time so far, including its ended children
 *   close()                    ----->   verbs.close?.(), then the channel closes and it exits
 *
 * The child exits when the channel closes, which happens also when the parent is killed.
 */
import { type ChildProcess, fork } from "node:child_process";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

/** The requests that a process handles, by name. */
export type Verbs = Readonly<Record<string, (value: never) => unknown>>;

interface Question {
  readonly id: number;
  readonly verb: string;
  readonly value?: unknown;
}

interface Answer {
  readonly id: number;
  readonly value?: unknown;
  readonly error?: { readonly name: string; readonly message: string };
}

interface Pending {
  resolve(value: unknown): void;
  reject(error: Error): void;
}

const ANSWER_WITHIN_MS = 120_000;
const CLOSE_WITHIN_MS = 10_000;
/** `.js` in the build, `.ts` when tests run the sources. */
const ENDING = import.meta.url.slice(-3);
/** The unit of /proc. Linux uses 100 ticks per second for user space. */
const MICROS_PER_TICK = 10_000;

/** The parent's side. */
export class Remote {
  readonly #child: ChildProcess;
  readonly #name: string;
  readonly #pending = new Map<number, Pending>();
  readonly #ended: Promise<unknown>;
  #questions = 0;

  /** Starts the file, given as its source `./x.ts`, and waits for its start() to finish. */
  static async fork(file: URL, config?: unknown): Promise<Remote> {
    const path = fileURLToPath(file).replace(/\.[jt]s$/, ENDING);
    const child = fork(path, [], {
      serialization: "advanced",
      stdio: ["ignore", 2, 2, "ipc"],
      execArgv: ENDING === ".ts" ? sourceArguments() : [],
    });
    const remote = new Remote(child, path);
    try {
      await remote.ask("start", config);
      return remote;
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
  }

  private constructor(child: ChildProcess, name: string) {
    this.#child = child;
    this.#name = name;
    this.#ended = new Promise((resolve) => {
      child.once("exit", resolve);
      child.once("error", resolve);
    });
    child.on("message", (answer: Answer) => this.#answered(answer));
    child.once("error", (error) => this.#lost(error));
    child.once("exit", (code, signal) => {
      this.#lost(new Error(`${name} ended with ${signal ?? `code ${code}`}`));
    });
  }

  /** Sends a request and waits for the response. Kills the process if it does not respond in time. */
  ask<T = unknown>(verb: string, value?: unknown): Promise<T> {
    const id = ++this.#questions;
    return new Promise<T>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#lost(new Error(`${verb} in ${this.#name} timed out after ${ANSWER_WITHIN_MS} ms`));
        this.#child.kill("SIGKILL");
      }, ANSWER_WITHIN_MS);
      const settled = (finish: () => void) => {
        clearTimeout(timer);
        this.#pending.delete(id);
        finish();
      };
      this.#pending.set(id, {
        resolve: (answer) => settled(() => resolve(answer as T)),
        reject: (error) => settled(() => reject(error)),
      });
      this.#child.send({ id, verb, value } satisfies Question, (error) => {
        if (error) this.#pending.get(id)?.reject(error);
      });
    });
  }

  /** Its CPU time so far, in microseconds. */
  cpu(): Promise<number> {
    return this.ask<number>("cpu");
  }

  /** Closes it. Sends SIGKILL if that takes too long. */
  async close(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), CLOSE_WITHIN_MS);
    try {
      await this.ask("close");
    } finally {
      if (this.#child.connected) this.#child.disconnect();
      await this.#ended;
      clearTimeout(timer);
    }
  }

  #answered({ id, value, error }: Answer): void {
    const pending = this.#pending.get(id);
    if (error === undefined) pending?.resolve(value);
    else pending?.reject(Object.assign(new Error(error.message), { name: error.name }));
  }

  #lost(error: Error): void {
    for (const pending of [...this.#pending.values()]) pending.reject(error);
  }
}

function sourceArguments(): string[] {
  const loader = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
  return ["--conditions=@ropeway/source", "--import", loader];
}

/** The child's side. A worker file calls it once. */
export function serve<C>(start: (config: C) => Promise<Verbs> | Verbs): void {
  let verbs: Verbs = {};
  const builtIn: Verbs = {
    start: async (config: C) => {
      verbs = await start(config);
    },
    cpu: cpuMicros,
    close: () => verbs.close?.(undefined as never),
  };
  process.on("message", async ({ id, verb, value }: Question) => {
    const reply = await answer(builtIn[verb] ?? verbs[verb], { id, verb, value });
    if (process.connected) process.send?.(reply);
  });
  process.on("disconnect", () => process.exit());
}

async function answer(act: Verbs[string] | undefined, question: Question): Promise<Answer> {
  const { id, verb, value } = question;
  try {
    if (act === undefined) throw new Error(`no such verb: ${verb}`);
    return { id, value: await act(value as never) };
  } catch (error) {
    const { name, message, stack } = error as Error;
    return { id, error: { name, message: name === "Unavailable" ? message : (stack ?? message) } };
  }
}

/** CPU time of this process and of its children that have ended, in microseconds. */
export function cpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system + endedChildrenMicros();
}

function endedChildrenMicros(): number {
  if (process.platform !== "linux") return 0; // redis-benchmark is the only such child
  const stat = readFileSync("/proc/self/stat", "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" "); // starts at field 3
  return (Number(fields[13]) + Number(fields[14])) * MICROS_PER_TICK;
}
