/** What a contender is given: the Redis of this run, its payload, and a name for its keys. */
import { Remote } from "./remote.ts";

/** The same for every contender of a scenario, except for `prefix`. */
export interface StageSettings {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Bytes of payload per operation. */
  readonly payload: number;
  /** Begins the contender's keys; Redis is emptied after each scenario. */
  readonly prefix: string;
  /** How long a slice will be, for those that have to prepare for it. */
  readonly sliceMs: number;
}

/** Where a contender performs. */
export class Stage {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly prefix: string;
  readonly sliceMs: number;
  /** The payload, as text and as bytes: ASCII, so that both have the length asked for. */
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
   * Runs the worker side in a process of its own: a file that calls `serve()` (remote.ts). Its CPU
   * time counts as this contender's worker CPU, and it ends with the scenario.
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
