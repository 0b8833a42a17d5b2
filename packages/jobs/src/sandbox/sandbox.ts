/**
 * One child process or worker thread that runs handlers, one job at a time.
 *
 *   starting --ready--> idle --run()--> busy --done, failed, put back--> idle
 *       '------------------'-------------'---- crash or kill() --------> ended
 *
 * The signal of a job that is cancelled, timed out or lost aborts. If the handler has not ended
 * `killAfterMs` later, its sandbox is killed. So even a handler that blocks its thread ends.
 */
import { type ChildProcess, fork } from "node:child_process";
import { Worker as Thread } from "node:worker_threads";
import { type Deferred, deferred, reasonOf } from "@ropeway/core/internal";
import {
  failureOf,
  InvalidDataError,
  NoHandlerError,
  SandboxCrashedError,
  thrownOf,
} from "../errors.ts";
import type { SandboxOptions } from "../options.ts";
import type { JobContext } from "../worker/attempt.ts";
import { CALLS, type FromSandbox, type ToSandbox } from "./protocol.ts";

/** The program inside the sandbox, the same for sources and build. */
const ENTRY = new URL("../../sandbox/entry.js", import.meta.url);

/** The running job, and the promise of its end. */
interface Run {
  readonly job: JobContext;
  readonly end: Deferred<unknown>;
  killTimer?: NodeJS.Timeout;
}

/** A child process or worker thread. */
export class Sandbox {
  readonly #options: Required<SandboxOptions>;
  readonly #inside: ChildProcess | Thread;
  readonly #ready: Deferred<void> = deferred();
  readonly #ended: Deferred<void> = deferred();
  #run: Run | undefined;
  #why: string | undefined;

  constructor(file: URL, options: Required<SandboxOptions>) {
    this.#options = options;
    this.#inside =
      options.kind === "thread" ? startThread(file, options) : startProcess(file, options);
    this.#ready.promise.catch(() => {}); // reported to the job that waits for it
    this.#inside.on("message", (message: unknown) => {
      if (isOurs(message)) this.#receive(message); // a handler may send anything
    });
    this.#inside.on("error", (error) => this.#end(reasonOf(error)));
    this.#inside.on("exit", (code, signal?: string) => this.#end(exitText(code, signal)));
  }

  /** False once it has ended, or is about to. */
  get alive(): boolean {
    return this.#why === undefined;
  }

  /** Returns the handler's result or throws its error; SandboxCrashedError if the sandbox ended before. */
  async run(job: JobContext): Promise<unknown> {
    const run: Run = { job, end: deferred() };
    run.end.promise.catch(() => {}); // awaited below, perhaps after it has failed
    this.#run = run;
    const abort = () => this.#abort(run);
    job.signal.addEventListener("abort", abort, { once: true });
    try {
      await this.#started();
      if (job.signal.aborted) throw job.signal.reason;
      this.#start(job);
      return await run.end.promise;
    } catch (error) {
      throw job.signal.aborted && error instanceof SandboxCrashedError ? job.signal.reason : error;
    } finally {
      job.signal.removeEventListener("abort", abort);
      clearTimeout(run.killTimer);
      this.#run = undefined;
    }
  }

  /** Ends the sandbox, even while a handler runs. */
  async kill(why: string = "it was killed"): Promise<void> {
    this.#why ??= why;
    if (this.#inside instanceof Thread) await this.#inside.terminate();
    else this.#inside.kill("SIGKILL");
    await this.#ended.promise;
  }

  async #started(): Promise<void> {
    const { startWithinMs } = this.#options;
    const late = () => void this.kill(`it did not start within ${startWithinMs} ms`);
    const timer = setTimeout(late, startWithinMs);
    try {
      await this.#ready.promise;
    } finally {
      clearTimeout(timer);
    }
  }

  #start(job: JobContext): void {
    const { id, name, queue, data, attempt, maxAttempts, stalls, addedAt, group, fence } = job;
    const values = { id, name, queue, data, attempt, maxAttempts, stalls, addedAt, group, fence };
    try {
      this.#send({ kind: "run", job: values });
    } catch (error) {
      throw new InvalidDataError(name, reasonOf(error), error); // the output of a schema cannot be copied
    }
  }

  #send(message: ToSandbox): void {
    if (this.#inside instanceof Thread) this.#inside.postMessage(message);
    else if (this.#inside.connected) this.#inside.send(message);
  }

  #receive(message: FromSandbox): void {
    const run = this.#run;
    if (message.kind === "ready") this.#ready.resolve();
    else if (message.kind === "broken") void this.kill(`cannot load the handler: ${message.why}`);
    else if (message.kind === "call") {
      if (run !== undefined) void this.#call(run, message);
    } else if (run !== undefined) settle(run, message);
  }

  async #call(run: Run, call: Extract<FromSandbox, { kind: "call" }>): Promise<void> {
    const { number, method, args } = call;
    try {
      if (!CALLS.includes(method)) throw new TypeError(`a job has no method ${method}`);
      const invoke = run.job[method].bind(run.job) as (...args: readonly unknown[]) => unknown;
      const returned = await invoke(...args);
      const value = method === "update" ? run.job.data : returned; // the output of the schema
      if (this.#run === run) this.#send({ kind: "reply", number, value });
    } catch (error) {
      if (this.#run === run) this.#send({ kind: "refusal", number, failure: failureOf(error) });
    }
  }

  #abort(run: Run): void {
    if (this.alive) this.#send({ kind: "abort", failure: failureOf(run.job.signal.reason) });
    run.killTimer = setTimeout(() => {
      this.kill("it was killed").catch(() => {}); // it has ended
    }, this.#options.killAfterMs);
  }

  #end(why: string): void {
    this.#why ??= why;
    const error = new SandboxCrashedError(this.#run?.job.id ?? "", this.#why);
    this.#ready.reject(error);
    this.#run?.end.reject(error);
    this.#ended.resolve();
  }
}

/** Whether the program inside sent the message. */
function isOurs(message: unknown): message is FromSandbox {
  return (message as { ropeway?: unknown } | null | undefined)?.ropeway === "jobs";
}

/** Ends a run with the sandbox's message. A message that a handler forged fails its own job only. */
function settle(run: Run, end: FromSandbox): void {
  try {
    run.end.resolve(outcomeOf(run.job, end));
  } catch (thrown) {
    run.end.reject(thrown);
  }
}

/** Returns the handler's result. Throws the handler's error, or the PutBack of delay() and waitForChildren(). */
function outcomeOf(job: JobContext, end: FromSandbox): unknown {
  if (end.kind === "failed") throw thrownOf(end.failure);
  if (end.kind === "noHandler") throw new NoHandlerError(job.id, job.name);
  if (end.kind === "unusable") throw new InvalidDataError(job.name, end.why);
  if (end.kind === "done") return end.value;
  if (end.kind !== "putBack") throw new TypeError("the sandbox sent an unknown message");
  if (end.method === "delay") job.delay(end.args[0] as number);
  return job.waitForChildren();
}

function startProcess(file: URL, options: Required<SandboxOptions>): ChildProcess {
  const memory = options.memoryMb === undefined ? [] : [`--max-old-space-size=${options.memoryMb}`];
  return fork(ENTRY, [file.href], {
    execArgv: [...options.execArgv, ...memory],
    serialization: "advanced",
  });
}

function startThread(file: URL, options: Required<SandboxOptions>): Thread {
  const { memoryMb, execArgv } = options;
  return new Thread(ENTRY, {
    workerData: file.href,
    execArgv: [...execArgv],
    ...(memoryMb === undefined ? {} : { resourceLimits: { maxOldGenerationSizeMb: memoryMb } }),
  });
}

function exitText(code: number | null, signal: string | undefined): string {
  return signal ? `it was ended by ${signal}` : `it exited with code ${code}`;
}
