/** The environment of a contender: the Redis of this run, the payload and a prefix for keys. */
import { Remote } from "./remote.ts";

/** The settings of a scenario. Only `prefix` differs between contenders. */
export interface StageSettings {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Bytes of payload per operation. */
  readonly payload: number;
  /** The prefix of the contender's keys. Redis is emptied after each scenario. */
  readonly prefix: string;
  /** The length of a slice, for contenders that prepare for it. */
  readonly sliceMs: number;
}

/** The environment of a contender. */
export class Stage {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly prefix: string;
  readonly sliceMs: number;
  /** The payload as a string and as bytes. It is ASCII, so that both have the same length. */
  readonly text: string;
  readonly bytes: Buffer;
  readonly #remotes: Remote[] = [];

  constructor(settings: StageSettings) {
    this.url = settings.url;
    this.host = settings.host;
    this.port = settings.port;
    this.prefix = settings.prefix;
    this.sliceMs = settings.sliceMs;
    this.text = "payload.".repeat(Math.ceil(settings.payload / 8)).slice(0, settings.payload);
    this.bytes = Buffer.from(this.text);
  }

  /**
   * Runs a worker file, which calls `serve()` (remote.ts), in its own process. Its CPU time counts as
   * this contender's worker CPU. It ends with the scenario.
   */
  async fork(file: URL, config?: unknown): Promise<Remote> {
    const remote = await Remote.fork(file, config);
    this.#remotes.push(remote);
    return remote;
  }

  /** CPU time of all forked processes so far, in microseconds. */
  async workerCpu(): Promise<number> {
    const times = await Promise.all(this.#remotes.map((remote) => remote.cpu()));
    return times.reduce((sum, time) => sum + time, 0);
  }

  async close(): Promise<void> {
    await Promise.all(this.#remotes.map((remote) => remote.close()));
  }
}
