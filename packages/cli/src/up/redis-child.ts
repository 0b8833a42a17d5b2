/**
 * The Redis of a home, kept running.
 *
 *   start() --> end a server that an earlier `up` left behind --> starting --> running
 *                                                                    ^           | ended by itself
 *                                          pause by backoff ---------+-----------+
 *   close(): SIGTERM, on which Redis saves and exits              5 times in a row -> `failed`
 *
 * Two servers on one set of append-only files would destroy them. HomeClaim keeps a second `up` out,
 * Guard ends the server of an `up` that was killed, and if the guard was killed too, the next `up`
 * finds the server by its record and ends it before it starts another.
 */
import { writeFile } from "node:fs/promises";
import { Backoff, type Deferred, deferred, reasonOf, sleep } from "@ropeway/core/internal";
import { isDiskFull, isFullDisk, tellsOfFullDisk } from "../disk-full.ts";
import { DiskFullError, PortInUseError, RedisStartError } from "../errors.ts";
import { freePort, isFree } from "./free-port.ts";
import { Guard } from "./guard.ts";
import type { Home } from "./home.ts";
import { lastLine, logSince, logSize } from "./log-tail.ts";
import { isListening } from "./presence.ts";
import { birthOf } from "./process-birth.ts";
import { redisConfig } from "./redis-config.ts";
import { describeExit, ServerProcess } from "./server-process.ts";
import {
  configFile,
  endProcess,
  leftServer,
  readRecord,
  serverOf,
  serverSocket,
  writeRecord,
} from "./server-record.ts";

/** What to run and where. */
export interface RedisChildOptions {
  /** The program and arguments that come first. */
  readonly command: readonly string[];
  readonly home: Home;
  /** Its log file. */
  readonly log: string;
  readonly appendfsync: string;
  /** A port that the user chose, and in which setting. @default the last one, or a free one */
  readonly port?: { readonly number: number; readonly where: string } | undefined;
  /** Called with a message when the server ended by itself or came back. */
  onTrouble(sentence: string): void;
  /** Ends a start that takes long. */
  readonly signal: AbortSignal;
}

const HOST = "127.0.0.1";
/** The message of Redis for a port that is in use. */
const IN_USE = "Address already in use";
const DRAWS = 10;
const END_WITHIN_MS = 10_000;
const LOOK_MS = 20;
const RESTARTS = 5;
const RESTART_PAUSE = { baseMs: 100, maxMs: 5_000 };
/** A server that ran this long was healthy: the count of failures starts again. */
const WELL_AFTER_MS = 30_000;
const SPACE_LOOK_MS = 500;
/** The messages of a server. */
const FULL_DISK = "No space left on device";

export class RedisChild implements AsyncDisposable {
  readonly #options: RedisChildOptions;
  readonly #guard = new Guard();
  readonly #failed: Deferred<never> = deferred();
  readonly #stop = new AbortController();
  #port = 0;
  #server: ServerProcess | undefined;
  #supervision: Promise<void> = Promise.resolve();
  #closed: Promise<void> | undefined;

  private constructor(options: RedisChildOptions) {
    this.#options = options;
    this.#failed.promise.catch(() => {}); // its callers handle it
  }

  /** Starts the home's server and waits until it has loaded its data. */
  static async start(options: RedisChildOptions): Promise<RedisChild> {
    const child = new RedisChild(options);
    try {
      await child.#begin();
      child.#supervision = child.#supervise();
      return child;
    } catch (error) {
      await child.close();
      throw error;
    }
  }

  get url(): string {
    return `redis://${HOST}:${this.#port}`;
  }

  /** Rejects when the server does not stay up and is not tried any more. */
  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  /** Kills the server, when its files belong to another process. */
  kill(): void {
    this.#stop.abort();
    this.#server?.kill();
  }

  /** Lets the server save and exit. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#stop.abort();
    await this.#endServer();
    await this.#supervision;
    await this.#endServer(); // one that was just being started again
    this.#guard.close();
  }

  async #endServer(): Promise<void> {
    if (!this.#server?.running) return;
    if ((await this.#server.end(END_WITHIN_MS)) === "killed") {
      this.#options.onTrouble(`Redis did not stop within ${END_WITHIN_MS} ms and was killed`);
    }
  }

  async #begin(): Promise<void> {
    const { home, port: asked } = this.#options;
    const record = await readRecord(home);
    const left = await leftServer(home, record);
    if (left !== undefined) await endProcess(left);
    // A server that cannot be ended from here: it runs in another container.
    if (await isListening(serverSocket(home))) {
      throw new RedisStartError("is still running in another container", this.#options.log);
    }
    // The port of the previous start, so that a copied REDIS_URL stays valid.
    let port = asked?.number ?? record?.port ?? (await freePort(HOST));
    for (let draw = 1; ; draw++) {
      const trouble = (await isFree(HOST, port)) ? await this.#launch(port) : IN_USE;
      if (trouble === undefined) return;
      if (!trouble.includes(IN_USE) || draw === DRAWS)
        throw this.#failure("did not start", trouble);
      if (asked !== undefined) throw new PortInUseError("up.redisPort", port, asked.where);
      port = await freePort(HOST);
    }
  }

  /** Starts the server. Returns its last messages if it ended instead of becoming ready. */
  async #launch(port: number): Promise<string | undefined> {
    const { command, home, log, appendfsync, signal } = this.#options;
    this.#port = port;
    const config = redisConfig({ folder: home.redis, host: HOST, port, appendfsync });
    try {
      await writeFile(configFile(home), config, { mode: 0o600 });
      await writeRecord(home, { port });
    } catch (error) {
      if (isDiskFull(error)) return FULL_DISK;
      throw error;
    }
    const logged = await logSize(log);
    let server: ServerProcess;
    try {
      server = await ServerProcess.start([...command, configFile(home)], log, (pid) =>
        this.#guard.watch(pid),
      );
    } catch (error) {
      return reasonOf(error);
    }
    this.#server = server;
    void server.exited.then(() => this.#guard.forget());
    const birth = await birthOf(server.pid);
    await writeRecord(home, { port, ...(birth === undefined ? {} : { process: birth }) }).catch(
      (error) => {
        if (!isDiskFull(error)) throw error; // the next `up` finds the server by its port
      },
    );
    const ended = server.exited.then(() => undefined);
    while (server.running) {
      if ((await Promise.race([serverOf(home, port), ended])) !== undefined) return undefined;
      await sleep(LOOK_MS, AbortSignal.any([signal, this.#stop.signal]));
    }
    const exit = await server.exited;
    return (await logSince(log, logged)) || `it ended by ${describeExit(exit)}`;
  }

  /** Why there is no server; `trouble` is its last message. */
  #failure(what: string, trouble: string | undefined): Error {
    const { home, log } = this.#options;
    if (trouble !== undefined && tellsOfFullDisk(trouble)) return new DiskFullError(home.redis);
    const why = trouble === undefined ? "" : `: ${lastLine(trouble)}`;
    return new RedisStartError(`${what}${why}`, log);
  }

  /** Starts the server again whenever it ends by itself. */
  async #supervise(): Promise<void> {
    const backoff = new Backoff(RESTART_PAUSE);
    try {
      while (this.#server !== undefined) {
        const since = performance.now();
        const exit = await this.#server.exited;
        if (this.#stop.signal.aborted) return;
        if (performance.now() - since > WELL_AFTER_MS) backoff.reset();
        // On a full disk, a server cannot even write its last messages.
        const full = await isFullDisk(this.#options.home.redis);
        const lastWords = full ? FULL_DISK : await logSince(this.#options.log, 0);
        const why = tellsOfFullDisk(lastWords) ? ", because its disk is full" : "";
        this.#options.onTrouble(`Redis ended by ${describeExit(exit)}${why}; starting it again`);
        await this.#revive(backoff, lastWords);
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) this.#failed.reject(error);
    }
  }

  async #revive(backoff: Backoff, lastWords: string): Promise<void> {
    const { home, onTrouble } = this.#options;
    let trouble: string | undefined = lastWords;
    let told = false;
    do {
      if (trouble === FULL_DISK) {
        if (!told) onTrouble(`the disk that holds ${home.redis} is full; Redis waits for space`);
        told = true;
        do await sleep(SPACE_LOOK_MS, this.#stop.signal);
        while (await isFullDisk(home.redis));
      } else if (backoff.attempt === RESTARTS) {
        throw this.#failure("does not stay up", trouble);
      } else {
        await sleep(backoff.next(), this.#stop.signal);
      }
      trouble = await this.#launch(this.#port);
    } while (trouble !== undefined);
    this.#options.onTrouble(`Redis is back at ${this.url}`);
  }
}
