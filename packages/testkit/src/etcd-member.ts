// One etcd process with its data folder and the methods of `RedisServer`. It is ready when it logs
// that it serves clients. It does so only after the cluster has elected a leader, so the members of
// a new cluster are started together, and one member of three waits for a second one.
import { request } from "node:http";
import { join } from "node:path";
import { TestkitError } from "./errors.ts";
import { noteClosed, noteOpened, type Opened } from "./registry.ts";
import { makeTempFolder, removeTempFolder } from "./temp-folder.ts";
import { WatchedProcess } from "./watched-process.ts";

const READY = /serving client traffic|ready to serve client requests/;
const START_WITHIN_MS = 30_000;

/** The command, name and ports of one member. */
export interface EtcdPlan {
  readonly command: readonly string[];
  readonly args: readonly string[];
  readonly name: string;
  readonly clientPort: number;
  readonly peerPort: number;
  /** All members as `name=peer-url,...`. */
  readonly cluster: string;
}

/** A member of an etcd cluster. */
export class EtcdMember implements Opened, AsyncDisposable {
  readonly host = "127.0.0.1";
  /** The port for clients. */
  readonly port: number;
  readonly peerPort: number;
  readonly name: string;
  readonly #plan: EtcdPlan;
  #folder: string | undefined;
  #process: WatchedProcess | undefined;
  #closing: Promise<void> | undefined;

  constructor(plan: EtcdPlan) {
    this.#plan = plan;
    this.name = plan.name;
    this.port = plan.clientPort;
    this.peerPort = plan.peerPort;
    noteOpened(this);
  }

  /** The URL for clients. */
  get url(): string {
    return `http://${this.host}:${this.port}`;
  }

  get pid(): number {
    return this.#running().pid;
  }

  get running(): boolean {
    return this.#process?.running ?? false;
  }

  /** Starts it, with its data after a stop, and waits until it serves clients. */
  async start(): Promise<void> {
    if (this.running) return;
    this.#folder ??= await makeTempFolder("etcd");
    const member = await WatchedProcess.start([...this.#plan.command, ...this.#arguments()]);
    this.#process = member;
    try {
      await member.log.find(READY, { withinMs: START_WITHIN_MS });
    } catch (cause) {
      await member.kill9();
      const message = `etcd did not start; its last lines:\n${member.log.tail()}`;
      throw new TestkitError("START_FAILED", message, { cause });
    }
  }

  #arguments(): string[] {
    const peerUrl = `http://${this.host}:${this.peerPort}`;
    const flags = {
      name: this.name,
      "data-dir": join(this.#folder ?? "", "data"),
      "listen-client-urls": this.url,
      "advertise-client-urls": this.url,
      "listen-peer-urls": peerUrl,
      "initial-advertise-peer-urls": peerUrl,
      "initial-cluster": this.#plan.cluster,
      logger: "zap",
      "log-outputs": "stderr",
    };
    return [
      ...Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`),
      ...this.#plan.args,
    ];
  }

  /** Stops it with SIGTERM and keeps the data. */
  async stop(): Promise<void> {
    await this.#process?.terminate(START_WITHIN_MS);
  }

  /** stop() and start(). */
  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Sends SIGKILL. Acknowledged writes are on disk. */
  async kill9(): Promise<void> {
    await this.#process?.kill9();
  }

  /** Sends SIGSTOP. Connections stay open, and requests get no response. */
  pause(): void {
    this.#running().signal("SIGSTOP");
  }

  /** Sends SIGCONT. */
  resume(): void {
    this.#running().signal("SIGCONT");
  }

  /** The last lines of its log. */
  log(): string {
    return this.#process?.log.tail() ?? "";
  }

  /** Calls the JSON gateway, such as `call("/v3/kv/range", { key: base64 })`. */
  call(path: string, body: unknown = {}): Promise<Record<string, unknown>> {
    return postJson(`${this.url}${path}`, body);
  }

  describe(): string {
    return `etcd ${this.url}`;
  }

  /** Kills it and removes its data. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.kill9();
    if (this.#folder !== undefined) await removeTempFolder(this.#folder);
    noteClosed(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #running(): WatchedProcess {
    if (!this.#process?.running) {
      throw new TestkitError("NOT_RUNNING", `etcd on ${this.url} is not running`);
    }
    return this.#process;
  }
}

// Not `fetch`, because its pool keeps connections open after the response.
function postJson(url: string, body: unknown): Promise<Record<string, unknown>> {
  return new Promise((resolve, reject) => {
    const post = request(url, { method: "POST", agent: false, timeout: 10_000 }, (response) => {
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.once("error", reject);
      response.once("end", () => {
        const text = Buffer.concat(parts).toString();
        if (response.statusCode === 200) resolve(JSON.parse(text));
        else reject(new TestkitError("GAVE_UP", `${url} returned ${response.statusCode}: ${text}`));
      });
    });
    post.once("timeout", () => post.destroy(new Error(`${url} timed out after 10000 ms`)));
    post.once("error", reject);
    post.end(JSON.stringify(body));
  });
}
