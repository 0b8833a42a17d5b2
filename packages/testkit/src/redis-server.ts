// A real redis-server in its own folder.
//
//   startRedis() --> running <--- start() ---- down
//                      |  ^                     ^
//              pause() v  | resume()            |
//                    frozen                     |
//                      '----- stop() | kill9() -'        close(): from anywhere, for good
//
// Address and folder never change, so clients can reconnect to the same server. The server is ready
// when it logs so. A PING is not enough: another process may have taken the port, and it would reply
// with PONG too.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeCertificate } from "./certificate.ts";
import { type Access, ControlConnection } from "./control-connection.ts";
import { TestkitError } from "./errors.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./port.ts";
import { program } from "./program.ts";
import { describeClient, foreignClients, type ListedClient } from "./redis-client-list.ts";
import {
  HOST,
  type RedisOptions,
  type RedisPlan,
  redisConf,
  socketPathOf,
} from "./redis-options.ts";
import { noteClosed, noteFinding, noteOpened, type Opened } from "./registry.ts";
import type { Argument, Reply } from "./resp.ts";
import { makeTempFolder, removeTempFolder } from "./temp-folder.ts";
import { WatchedProcess } from "./watched-process.ts";

const READY = /ready to accept connections|Sentinel ID is/i;
const START_WITHIN_MS = 15_000;
const CLIENTS_GONE_WITHIN_MS = 1000;

/** Starts a server and waits until it accepts connections. */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const command = await program("redis-server", options.version);
  const dir = await makeTempFolder("redis");
  const certificate = options.tls ? await makeCertificate(dir) : undefined;
  for (let draw = 1; ; draw++) {
    const port = options.socket ? 0 : (options.port ?? (await freePort()));
    const server = new RedisServer({ ...options, command, dir, port, certificate });
    try {
      await server.start();
      noteOpened(server);
      return server;
    } catch (error) {
      const taken = /Address already in use/i.test((error as Error).message);
      if (taken && options.port === undefined && draw < 10) continue;
      await removeTempFolder(dir);
      throw error;
    }
  }
}

/** A started server. The top of the file shows its states. */
export class RedisServer implements Opened, AsyncDisposable {
  readonly host: string = HOST;
  readonly port: number;
  readonly socketPath: string | undefined;
  readonly password: string | undefined;
  /** The `ca` option of a client that trusts it, if it uses TLS. */
  readonly ca: string | undefined;
  /** Its folder with redis.conf, dump.rdb and appendonlydir. close() removes it. */
  readonly dir: string;
  readonly #plan: RedisPlan;
  readonly #control: ControlConnection;
  #process: WatchedProcess | undefined;
  #closing: Promise<void> | undefined;

  constructor(plan: RedisPlan) {
    this.#plan = plan;
    this.dir = plan.dir;
    this.port = plan.port;
    this.password = plan.password;
    this.ca = plan.certificate?.ca;
    this.socketPath = socketPathOf(plan);
    this.#control = new ControlConnection(this.#access());
  }

  #access(): Access {
    const { host, port, socketPath, password, ca } = this;
    return {
      host,
      port,
      ...(socketPath && { socketPath }),
      ...(password && { password }),
      ...(ca && { ca }),
    };
  }

  /** `redis://:password@host:port`, `rediss://` with TLS, or `unix:///path` for a socket. */
  get url(): string {
    const secret = this.password === undefined ? "" : `:${encodeURIComponent(this.password)}@`;
    if (this.socketPath !== undefined) return `unix://${secret}${this.socketPath}`;
    return `${this.ca === undefined ? "redis" : "rediss"}://${secret}${this.host}:${this.port}`;
  }

  get pid(): number {
    return this.#running().pid;
  }

  get running(): boolean {
    return this.#process?.running ?? false;
  }

  /** Sends a command on the testkit's own connection. */
  command(...args: Argument[]): Promise<Reply> {
    return this.#control.command(...args);
  }

  /** Starts it again on the same address and data after stop() or kill9(). */
  async start(): Promise<void> {
    if (this.running) return;
    const file = join(this.dir, "redis.conf");
    // Written once, because Sentinel, replication and CONFIG REWRITE store their state in this file.
    if (this.#process === undefined) {
      await writeFile(file, redisConf(this.#plan));
    }
    const mode = this.#plan.sentinel ? ["--sentinel"] : [];
    const server = await WatchedProcess.start([...this.#plan.command, file, ...mode]);
    this.#process = server;
    try {
      await server.log.find(READY, { withinMs: START_WITHIN_MS });
    } catch (cause) {
      await server.kill9();
      const message = `redis-server did not start; its last lines:\n${server.log.tail()}`;
      throw new TestkitError("START_FAILED", message, { cause });
    }
  }

  /** Stops it with SHUTDOWN SAVE, which keeps the data without an append-only file too. */
  async stop(): Promise<void> {
    const server = this.#process;
    if (!server?.running) return;
    server.signal("SIGCONT");
    const saved = this.#plan.sentinel ? [] : ["SAVE"];
    // SHUTDOWN closes the connection. An error reply means that Redis refused it.
    await this.command("SHUTDOWN", ...saved).catch((error: Error) => {
      if (error.name === "ReplyError") throw error;
    });
    await server.exitWithin(START_WITHIN_MS);
    this.#control.close();
  }

  /** stop() and start(). */
  async restart(): Promise<void> {
    await this.stop();
    await this.start();
  }

  /** Sends SIGKILL. Data that is not on disk is lost. */
  async kill9(): Promise<void> {
    await this.#process?.kill9();
    this.#control.close();
  }

  /** Sends SIGSTOP. Connections stay open, and commands get no reply. */
  pause(): void {
    this.#running().signal("SIGSTOP");
  }

  /** Sends SIGCONT. The server replies to the commands sent meanwhile. */
  resume(): void {
    this.#running().signal("SIGCONT");
  }

  /** The last lines of its log. */
  log(): string {
    return this.#process?.log.tail() ?? "";
  }

  /** The connections of the code under test. */
  async clients(): Promise<ListedClient[]> {
    return foreignClients(String(await this.command("CLIENT", "LIST")));
  }

  describe(): string {
    return `redis-server ${this.url}`;
  }

  /** Kills it and removes its folder. Reports clients that are still connected as leaks of this test file. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (this.running) await this.#noteClients();
    await this.kill9();
    await removeTempFolder(this.dir);
    noteClosed(this);
  }

  async #noteClients(): Promise<void> {
    this.resume();
    let left: ListedClient[] = [];
    // Redis may still list a client that was closed a moment ago.
    await eventually(
      async () => {
        left = await this.clients();
        if (left.length > 0) throw new Error(`${left.length} clients`);
      },
      { withinMs: CLIENTS_GONE_WITHIN_MS },
    ).catch(() => {
      for (const client of left) {
        noteFinding(`${describeClient(client)} was still connected to ${this.describe()}`);
      }
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #running(): WatchedProcess {
    if (!this.#process?.running) {
      throw new TestkitError("NOT_RUNNING", `redis-server on ${this.url} is not running`);
    }
    return this.#process;
  }
}
