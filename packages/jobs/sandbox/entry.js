/**
 * The program inside a sandbox: loads the handler file, then runs one job after the other. It is plain
 * JavaScript without dependencies, so that a sandbox starts quickly and needs no build or loader of its
 * own. src/sandbox/protocol.ts describes the messages. It ends with the process that started it.
 */
import process from "node:process";
import { inspect } from "node:util";
import { parentPort, Worker as Thread, workerData } from "node:worker_threads";

const file = parentPort === null ? process.argv[2] : workerData;
/** The mark distinguishes our messages from those that a handler sends on the same channel. */
const send = (content) => {
  const message = { ...content, ropeway: "jobs" };
  return parentPort === null ? process.send?.(message) : parentPort.postMessage(message);
};

/** Thrown by delay() and waitForChildren(). */
class PutBack {
  constructor(method, args) {
    this.method = method;
    this.args = args;
  }
}

/** A job as the handler sees it: its values are here, its methods are calls to the worker. */
class SandboxJob {
  #controller = new AbortController();
  #calls = new Map();
  #numbers = 0;

  constructor(values) {
    Object.assign(this, values);
  }

  get signal() {
    return this.#controller.signal;
  }

  progress(value) {
    return this.#call("progress", value);
  }

  log(line) {
    return this.#call("log", typeof line === "string" ? line : inspect(line));
  }

  touch() {
    return this.#call("touch");
  }

  async update(data) {
    this.data = await this.#call("update", data);
  }

  delay(ms) {
    throw new PutBack("delay", [ms]);
  }

  children() {
    return this.#call("children");
  }

  addChildren(children) {
    return this.#call("addChildren", children);
  }

  waitForChildren() {
    throw new PutBack("waitForChildren", []);
  }

  /** A sandbox runs no batches, so fail() throws the error. */
  fail(error) {
    throw error;
  }

  /** A message from the worker about this job. */
  receive(message) {
    if (message.kind === "abort") {
      this.#controller.abort(errorOf(message.failure));
      return;
    }
    const call = this.#calls.get(message.number);
    this.#calls.delete(message.number);
    if (message.kind === "reply") call?.resolve(message.value);
    else call?.reject(errorOf(message.failure));
  }

  #call(method, ...args) {
    return new Promise((resolve, reject) => {
      if (current !== this) throw endedError(this.id, method); // a later job may be running here
      const number = ++this.#numbers;
      this.#calls.set(number, { resolve, reject });
      send({ kind: "call", number, method, args }); // throws if an argument cannot be copied
    });
  }
}

/** The error of a method that a handler calls after it has returned. */
function endedError(id, verb) {
  const details = { id, verb, state: "ended" };
  const message = `cannot ${verb} job ${JSON.stringify(id)}: it is ended`;
  return errorOf({ name: "JobStateError", code: "JOB_STATE", message, details });
}

/** A failure as an error with the same name, code and details. */
function errorOf({ message, stack, ...rest }) {
  const error = Object.assign(new Error(message), rest);
  if (stack !== undefined) error.stack = stack;
  return error;
}

/** A thrown value as a failure: see failureOf() in src/errors.ts. */
function failureOf(thrown) {
  try {
    return describe(thrown);
  } catch {
    return { name: "Error", message: "the handler threw a value that cannot be read" };
  }
}

function describe(thrown) {
  if (!(thrown instanceof Error)) return { name: "NonError", message: String(thrown) };
  const { name, message, stack, code, details } = thrown;
  const isOurs = typeof code === "string" && typeof details === "object" && details !== null;
  return {
    name: String(name),
    message: String(message),
    ...(typeof stack === "string" ? { stack: stack.slice(0, 4_000) } : {}),
    ...(typeof code === "string" ? { code } : {}),
    ...(isOurs ? { details: JSON.parse(JSON.stringify(details)) } : {}),
  };
}

/** The file's export `handlers`, or its default export: a handler for all jobs, or one for each name. */
async function load() {
  const exported = await import(file);
  const handlers = exported.handlers ?? exported.default;
  if (typeof handlers === "function") return () => handlers;
  if (typeof handlers !== "object" || handlers === null) {
    throw new TypeError("it exports no handlers: neither a function nor an object of functions");
  }
  return (name) => (Object.hasOwn(handlers, name) ? handlers[name] : undefined);
}

async function run(job, handler) {
  if (typeof handler !== "function") return { kind: "noHandler" };
  try {
    return { kind: "done", value: await handler(job) };
  } catch (error) {
    if (error instanceof PutBack) return { kind: "putBack", method: error.method, args: error.args };
    return { kind: "failed", failure: failureOf(error) };
  }
}

/** Sends the outcome of a job. A result that cannot be copied is a failure. */
function sendEnd(end) {
  try {
    send(end);
  } catch (error) {
    send({ kind: "unusable", why: String(error?.message ?? error) });
  }
}

/** A process that its handler blocks cannot detect that its worker was killed, so a thread checks. */
const WATCHDOG = `
  const { workerData: parent } = require("node:worker_threads");
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, "SIGKILL");
  }, 1000);
`;
const parent = process.ppid;

let current;

async function receive(message, handlerOf) {
  if (message.kind !== "run") {
    current?.receive(message);
    return;
  }
  const job = new SandboxJob(message.job);
  current = job;
  const end = await run(job, handlerOf(job.name));
  current = undefined;
  sendEnd(end);
}

try {
  const handlerOf = await load();
  const listener = (message) => receive(message, handlerOf);
  if (parentPort !== null) parentPort.on("message", listener);
  else process.on("message", listener).on("disconnect", () => process.exit());
  send({ kind: "ready" });
  if (parentPort === null) {
    new Thread(WATCHDOG, { eval: true, execArgv: [], workerData: parent }).unref();
  }
} catch (error) {
  send({ kind: "broken", why: String(error?.message ?? error) });
}
