/**
 * A link is one socket to one server, from its handshake to its end. It never reconnects: when it is
 * lost, every command on it is rejected at once and its owner (Connection) opens another. Separating the
 * two makes a loss visible instead of hiding it in a client's offline queue.
 *
 *   open() --> alive --+--> dead   socket closed, no reply to the heartbeat, retire()
 *                      |           (`died` resolves with the reason, once)
 *                      +--> dead   close(): waits for pending replies first
 *
 * This is the only file that uses the Redis client library.
 */
import type {
  ErrorReply,
  RedisClientOptions,
  RedisFunctions,
  RedisModules,
  RedisScripts,
} from "@redis/client";
import { type Address, showAddress } from "./endpoint.ts";
import {
  AuthFailedError,
  ConnectFailedError,
  reasonOf,
  ServerReplyError,
  ServerTooOldError,
} from "./errors.ts";
import type { Argument, Reply } from "./reply.ts";
import type { Script } from "./script.ts";
import { parseServerInfo, type ServerInfo, tooOld } from "./server-info.ts";
import { deferred, LONGEST_TIMER_MS, within } from "./wait.ts";

/** How to open a link. */
export interface LinkOptions {
  readonly address: Address;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  readonly db?: number | undefined;
  readonly tls?: object | true | undefined;
  /** The name in CLIENT LIST. */
  readonly name: string;
  readonly connectTimeoutMs: number;
  /** The interval of PINGs; 0 on links that block. */
  readonly heartbeatMs: number;
  /** Silence after a PING that means that the peer is gone. */
  readonly deadAfterMs: number;
  /** Whether the server is a sentinel, which speaks the protocol but holds no data. */
  readonly sentinel?: boolean;
}

/** Identifies a link at its server. */
export interface LinkId {
  readonly clientId: number | undefined;
  /** Identifies the server's process: each process numbers its connections from the start. */
  readonly runId: string | undefined;
}

type Client = ReturnType<ReturnType<typeof factoryOf>>;
type Library = typeof import("@redis/client");

/**
 * Loaded when the first link is opened. It has a file per Redis command, which would be most of the startup time of a
 * process that never opens a link.
 */
let library: Library | undefined;
let newClient: ReturnType<typeof factoryOf> | undefined;

// Without the field, the library's default of 5 s applies; only an explicit `undefined` disables it.
const NO_TIMER = { timeout: undefined } as unknown as { timeout?: number };
const BLOB_STRING = 36; // RESP_TYPES.BLOB_STRING
const BINARY = { typeMapping: { [BLOB_STRING]: Buffer } } as const;

/** Receives the messages of a channel. */
export type ChannelListener = (message: Buffer, channel: Buffer) => void;

/** One live socket. */
export class Link {
  readonly server: ServerInfo;
  /** The server's id of this connection, for CLIENT UNBLOCK; undefined if it does not report it. */
  readonly clientId: number | undefined;
  readonly #runId: string | undefined;
  /** Resolves with the reason when the link is dead. */
  readonly died: Promise<unknown>;
  readonly #client: Client;
  readonly #options: LinkOptions;
  readonly #loaded = new Set<string>();
  readonly #death = deferred<unknown>();
  #alive = true;
  #heartbeat: NodeJS.Timeout | undefined;

  private constructor(client: Client, options: LinkOptions, greeting: Greeting) {
    this.#client = client;
    this.#options = options;
    this.server = greeting.server;
    this.clientId = greeting.clientId;
    this.#runId = greeting.runId;
    this.died = this.#death.promise;
    client.on("error", (error) => this.#die(error));
    client.on("end", () => this.#die(new Error("the server closed the connection")));
    if (options.heartbeatMs > 0) {
      const everyMs = Math.min(options.heartbeatMs, LONGEST_TIMER_MS);
      this.#heartbeat = setInterval(() => void this.beat(), everyMs);
      this.#heartbeat.unref();
    }
  }

  /** Connects, authenticates, and checks that the server is supported. */
  static async open(options: LinkOptions, signal?: AbortSignal): Promise<Link> {
    const client = await createRawClient(options);
    const where = showAddress(options.address);
    client.on("error", ignore); // connect() rejects with the same error
    const connecting = client.connect();
    try {
      const bounds = {
        timeoutMs: options.connectTimeoutMs,
        signal,
        what: `connecting to ${where}`,
      };
      const greeting = await within(
        connecting.then(() => greet(client)),
        bounds,
      );
      const { server } = greeting;
      const needed = options.sentinel ? undefined : tooOld(server);
      if (needed !== undefined) throw new ServerTooOldError(where, server.title, needed);
      const link = new Link(client, options, greeting);
      client.off("error", ignore);
      if (!client.isReady) throw new Error("the server closed the connection");
      return link;
    } catch (error) {
      client.destroy();
      // The library cannot stop a socket that is still connecting, so it is stopped once it has connected.
      connecting.then(() => client.destroy(), ignore);
      if (error instanceof ServerTooOldError) throw error;
      if (isAuthError(error)) throw new AuthFailedError(where, error);
      throw new ConnectFailedError(where, error);
    }
  }

  /** The server's address, for comparing two links. */
  get where(): string {
    return showAddress(this.#options.address);
  }

  /** How the server identifies the link. */
  get id(): LinkId {
    return { clientId: this.clientId, runId: this.#runId };
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Writes a command. Rejections are those of the client library; see explainReply(). */
  send(args: readonly (string | Buffer)[], binary: boolean = false): Promise<Reply> {
    return this.#client.sendCommand(args, binary ? BINARY : undefined) as Promise<Reply>;
  }

  /** Runs a script, loading it before its first call on this link. */
  run(script: Script<unknown>, keys: readonly string[], args: readonly Argument[]): Promise<Reply> {
    if (!this.#loaded.has(script.sha1)) {
      this.#loaded.add(script.sha1);
      // If loading fails, the call after it reports why. Only the mark is removed, so that it is loaded next time.
      this.send(["SCRIPT", "LOAD", script.source]).catch(() => this.#loaded.delete(script.sha1));
    }
    return this.send(scriptCommand(["EVALSHA", script.sha1], keys, args), script.binary);
  }

  /**
   * Makes the server close an earlier link, so that a command that is still on its way never runs. Has no effect
   * without the permission for CLIENT KILL, or on another server.
   */
  async replace({ clientId, runId }: LinkId): Promise<void> {
    if (clientId === undefined || runId === undefined || runId !== this.#runId) return;
    try {
      await this.send(["CLIENT", "KILL", "ID", String(clientId)]);
    } catch (error) {
      if (!isErrorReply(error)) throw error;
    }
  }

  /** Makes the server accept the next command although it is still importing that command's slot. */
  asking(): void {
    this.send(["ASKING"]).catch(ignore); // the command after it reports the error
  }

  /** Runs a script by its source, after NOSCRIPT. */
  eval(
    script: Script<unknown>,
    keys: readonly string[],
    args: readonly Argument[],
  ): Promise<Reply> {
    return this.send(scriptCommand(["EVAL", script.source], keys, args), script.binary);
  }

  /**
   * Listens on a channel; the link can then carry no ordinary commands. A listener that is already
   * subscribed to the channel is not added twice.
   */
  async subscribe(channel: string, listener: ChannelListener): Promise<void> {
    // The library would queue this on a dead socket forever, unlike an ordinary command.
    if (!this.#alive) throw closed();
    await this.#client.subscribe(channel, listener, true);
  }

  /** Leaves a channel. Without the listener, the library would drop a subscribe() directly after it. */
  async unsubscribe(channel: string, listener: ChannelListener): Promise<void> {
    if (!this.#alive) throw closed();
    await this.#client.unsubscribe(channel, listener, true);
  }

  /** Tests the peer. The link dies if the PING gets no reply in time. */
  async beat(): Promise<void> {
    const { deadAfterMs } = this.#options;
    try {
      await within(this.send(["PING"]), { timeoutMs: deadAfterMs, what: "a heartbeat" });
    } catch (error) {
      if (!isErrorReply(error)) this.#die(error); // replies such as LOADING show that the peer is alive
    }
  }

  /** Gives up the link at once, because it is no longer of use. */
  retire(reason: unknown): void {
    this.#die(reason);
  }

  /** Waits for pending replies, at most `withinMs`, then closes. */
  async close(withinMs: number): Promise<void> {
    if (!this.#alive) return;
    clearInterval(this.#heartbeat);
    try {
      // The library does not notice a broken socket while it waits for the last replies.
      await within(Promise.race([this.#client.close(), this.died]), { timeoutMs: withinMs });
    } catch {
      // too slow, or lost meanwhile: #die() below destroys the socket
    }
    this.#die(new Error("closed"));
  }

  #die(reason: unknown): void {
    if (!this.#alive) return;
    this.#alive = false;
    clearInterval(this.#heartbeat);
    this.#client.destroy();
    this.#death.resolve(reason);
  }
}

/** A command's rejection as a RopewayError; undefined if the link itself broke. */
export function explainReply(error: unknown, command: string): ServerReplyError | undefined {
  return isErrorReply(error) ? new ServerReplyError(command, error) : undefined;
}

/** Whether the command never left this process, so that sending it again is always safe. */
export function wasNeverSent(error: unknown): boolean {
  if (library === undefined) return false;
  return error instanceof library.ClientClosedError || error instanceof library.ClientOfflineError;
}

/** Whether Redis replied that it does not know the script. */
export function isNoScript(error: unknown): boolean {
  return isErrorReply(error) && error.message.startsWith("NOSCRIPT");
}

function isErrorReply(error: unknown): error is ErrorReply {
  return library !== undefined && error instanceof library.ErrorReply;
}

/** The error that the library rejects with on a dead link. */
function closed(): Error {
  return new (library as Library).ClientClosedError();
}

/**
 * One class for all links. createClient() would create a new one, with a method per Redis command, at each
 * attempt to connect, which is expensive while Redis is unreachable.
 */
function factoryOf({ RedisClient }: Library) {
  return RedisClient.factory<RedisModules, RedisFunctions, RedisScripts, 2>({ RESP: 2 });
}

/** Loads the client library. connect() does so before its timeout starts: on a busy machine it takes seconds. */
export async function loadLibrary(): Promise<void> {
  library ??= await import("@redis/client");
}

async function createRawClient(options: LinkOptions): Promise<Client> {
  await loadLibrary();
  newClient ??= factoryOf(library as Library);
  const { address, username, password, db, tls } = options;
  const settings: RedisClientOptions<RedisModules, RedisFunctions, RedisScripts, 2> = {
    RESP: 2,
    name: options.name,
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(db === undefined ? {} : { database: db }),
    // The library's timer per command costs most of its speed; deadlines and heartbeats limit commands instead.
    commandOptions: NO_TIMER,
    maintNotifications: "disabled",
    clientInfoTag: "ropeway",
    disableOfflineQueue: true,
    socket: {
      ...address,
      ...(tls === undefined ? {} : { tls: true as const, ...(tls === true ? {} : tls) }),
      connectTimeout: options.connectTimeoutMs,
      reconnectStrategy: false,
    },
  };
  return newClient(settings);
}

/** What a server reports about itself and the link when it opens. */
interface Greeting extends LinkId {
  readonly server: ServerInfo;
}

async function greet(client: Client): Promise<Greeting> {
  const [info, id] = await Promise.all([
    client.sendCommand(["INFO", "server"]).catch(undefinedIfForbidden),
    client.sendCommand(["CLIENT", "ID"]).catch(undefinedIfForbidden),
    client.sendCommand(["PING"]), // a server that is still loading its data refuses this
  ]);
  return {
    server: parseServerInfo(String(info ?? "")),
    clientId: id === undefined ? undefined : Number(id),
    runId: /^run_id:(\w+)/m.exec(String(info ?? ""))?.[1],
  };
}

/** A user without permission for INFO or CLIENT may still use everything else; a sentinel has no ids. */
function undefinedIfForbidden(error: unknown): undefined {
  if (isErrorReply(error) && /^(NOPERM|ERR unknown)/.test(error.message)) return undefined;
  throw error;
}

/** Built in place, because an array that grows by push() takes several times the memory, on every call. */
function scriptCommand(
  [verb, body]: readonly [verb: string, body: string],
  keys: readonly string[],
  args: readonly Argument[],
): (string | Buffer)[] {
  const command: (string | Buffer)[] = new Array(3 + keys.length + args.length);
  command[0] = verb;
  command[1] = body;
  command[2] = String(keys.length);
  let at = 3;
  for (const key of keys) command[at++] = key;
  for (const arg of args) command[at++] = typeof arg === "number" ? String(arg) : arg;
  return command;
}

function isAuthError(error: unknown): boolean {
  return /^(WRONGPASS|NOAUTH|NOPERM|ERR invalid password|ERR AUTH|ERR Client sent AUTH)/.test(
    reasonOf(error),
  );
}

function ignore(): void {}
