/**
 * A link is one socket to one server, from its handshake to its death. It never reconnects: when it is
 * lost, every command on it is rejected at once and its owner (Connection) opens another. Keeping the
 * two apart is what makes a loss visible instead of hiding it in a client's offline queue.
 *
 *   open() --> alive --+--> dead   socket closed, heartbeat unanswered, retire()
 *                      |           (`died` resolves with the reason, once)
 *                      +--> dead   close(): what is in flight is answered first
 *
 * This is the only file that knows the Redis client library.
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
  /** The name the server shows in CLIENT LIST. */
  readonly name: string;
  readonly connectTimeoutMs: number;
  /** A PING goes out this often; 0 on links that block. */
  readonly heartbeatMs: number;
  /** Silence after a PING that means the peer is gone. */
  readonly deadAfterMs: number;
  /** Sentinels speak Redis but run no Redis. */
  readonly sentinel?: boolean;
}

/** A link as its server knows it. */
export interface LinkId {
  readonly clientId: number | undefined;
  /** Names the server's process: numbers of connections begin anew with each. */
  readonly runId: string | undefined;
}

type Client = ReturnType<ReturnType<typeof factoryOf>>;
type Library = typeof import("@redis/client");

/**
 * Loaded when the first link is opened: it has a file per Redis command, which is most of what a process that
 * never opens one would spend on starting.
 */
let library: Library | undefined;
let newClient: ReturnType<typeof factoryOf> | undefined;

// An absent timeout means the library's default of 5 s: only a present `undefined` switches it off.
const NO_TIMER = { timeout: undefined } as unknown as { timeout?: number };
const BLOB_STRING = 36; // RESP_TYPES.BLOB_STRING
const BINARY = { typeMapping: { [BLOB_STRING]: Buffer } } as const;

/** Gets what is published on a channel. */
export type ChannelListener = (message: Buffer, channel: Buffer) => void;

/** One live socket. */
export class Link {
  readonly server: ServerInfo;
  /** The server's number for this connection, for CLIENT UNBLOCK; undefined if it does not report it. */
  readonly clientId: number | undefined;
  readonly #runId: string | undefined;
  /** Resolves with the reason when the link is no more. */
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

  /** Connects, authenticates, and checks that the server is one we can work with. */
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
      // The library cannot stop a socket that is still connecting: it is stopped when it has.
      connecting.then(() => client.destroy(), ignore);
      if (error instanceof ServerTooOldError) throw error;
      if (isAuthError(error)) throw new AuthFailedError(where, error);
      throw new ConnectFailedError(where, error);
    }
  }

  /** The place it leads to, for comparing two links. */
  get where(): string {
    return showAddress(this.#options.address);
  }

  /** What its server knows it by. */
  get id(): LinkId {
    return { clientId: this.clientId, runId: this.#runId };
  }

  get alive(): boolean {
    return this.#alive;
  }

  /** Writes a command; the rejection is the client library's own, see explain(). */
  send(args: readonly (string | Buffer)[], binary: boolean = false): Promise<Reply> {
    return this.#client.sendCommand(args, binary ? BINARY : undefined) as Promise<Reply>;
  }

  /** Runs a script, loading it in front of its first call on this link. */
  run(script: Script<unknown>, keys: readonly string[], args: readonly Argument[]): Promise<Reply> {
    if (!this.#loaded.has(script.sha1)) {
      this.#loaded.add(script.sha1);
      // If loading fails the call behind it says why; it must only be tried again next time.
      this.send(["SCRIPT", "LOAD", script.source]).catch(() => this.#loaded.delete(script.sha1));
    }
    return this.send(scriptCommand(["EVALSHA", script.sha1], keys, args), script.binary);
  }

  /**
   * Has the server close an earlier link, so that a command that is still on its way there is never run. Needs the
   * right to CLIENT KILL, and the same server: without one of them nothing happens.
   */
  async replace({ clientId, runId }: LinkId): Promise<void> {
    if (clientId === undefined || runId === undefined || runId !== this.#runId) return;
    try {
      await this.send(["CLIENT", "KILL", "ID", String(clientId)]);
    } catch (error) {
      if (!isErrorReply(error)) throw error;
    }
  }

  /** Has the server take the very next command although it is only importing that command's slot. */
  asking(): void {
    this.send(["ASKING"]).catch(ignore); // the command behind it says what went wrong
  }

  /** Runs a script by its source: the way out of NOSCRIPT. */
  eval(
    script: Script<unknown>,
    keys: readonly string[],
    args: readonly Argument[],
  ): Promise<Reply> {
    return this.send(scriptCommand(["EVAL", script.source], keys, args), script.binary);
  }

  /**
   * Listens on a channel; the link can then carry no ordinary commands. A channel and listener that are
   * there already are not doubled.
   */
  async subscribe(channel: string, listener: ChannelListener): Promise<void> {
    // The library would queue this on a dead socket for ever, unlike an ordinary command.
    if (!this.#alive) throw closed();
    await this.#client.subscribe(channel, listener, true);
  }

  /** Leaves a channel. Without the listener the library would forget a subscribe() right behind it. */
  async unsubscribe(channel: string, listener: ChannelListener): Promise<void> {
    if (!this.#alive) throw closed();
    await this.#client.unsubscribe(channel, listener, true);
  }

  /** Tests the peer: a link whose PING is not answered in time dies. */
  async beat(): Promise<void> {
    const { deadAfterMs } = this.#options;
    try {
      await within(this.send(["PING"]), { timeoutMs: deadAfterMs, what: "a heartbeat" });
    } catch (error) {
      if (!isErrorReply(error)) this.#die(error); // LOADING and the like are signs of life
    }
  }

  /** Gives the link up at once, because it is known to be of no use any more. */
  retire(reason: unknown): void {
    this.#die(reason);
  }

  /** Waits for the replies that are in progress, at most `withinMs`, then closes. */
  async close(withinMs: number): Promise<void> {
    if (!this.#alive) return;
    clearInterval(this.#heartbeat);
    try {
      // The library does not notice that a socket breaks while it waits for the last answers.
      await within(Promise.race([this.#client.close(), this.died]), { timeoutMs: withinMs });
    } catch {
      // too slow, or lost meanwhile: #die() below destroys what is left
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

/** A command's rejection as a typed error of ours; undefined if the link itself broke. */
export function explainReply(error: unknown, command: string): ServerReplyError | undefined {
  return isErrorReply(error) ? new ServerReplyError(command, error) : undefined;
}

/** Whether the command never left this process, so that sending it again is always safe. */
export function wasNeverSent(error: unknown): boolean {
  if (library === undefined) return false;
  return error instanceof library.ClientClosedError || error instanceof library.ClientOfflineError;
}

/** Whether Redis said that it does not know the script (any more). */
export function isNoScript(error: unknown): boolean {
  return isErrorReply(error) && error.message.startsWith("NOSCRIPT");
}

function isErrorReply(error: unknown): error is ErrorReply {
  return library !== undefined && error instanceof library.ErrorReply;
}

/** What the library itself rejects with on a link that is no more. */
function closed(): Error {
  return new (library as Library).ClientClosedError();
}

/**
 * One class for all links. createClient() would make a new one, with a method per Redis command, at each
 * attempt to connect: a process whose Redis is away would spend its time on that.
 */
function factoryOf({ RedisClient }: Library) {
  return RedisClient.factory<RedisModules, RedisFunctions, RedisScripts, 2>({ RESP: 2 });
}

/** Loads the client library. connect() does so before its time runs: on a busy machine it takes seconds. */
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
    // The library's timer per command costs most of its speed; our bounds are deadlines and heartbeats.
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

/** What a server says of itself and of us when a link opens. */
interface Greeting extends LinkId {
  readonly server: ServerInfo;
}

async function greet(client: Client): Promise<Greeting> {
  const [info, id] = await Promise.all([
    client.sendCommand(["INFO", "server"]).catch(undefinedIfForbidden),
    client.sendCommand(["CLIENT", "ID"]).catch(undefinedIfForbidden),
    client.sendCommand(["PING"]), // a server that still loads its data refuses this
  ]);
  return {
    server: parseServerInfo(String(info ?? "")),
    clientId: id === undefined ? undefined : Number(id),
    runId: /^run_id:(\w+)/m.exec(String(info ?? ""))?.[1],
  };
}

/** A user without the right to INFO or CLIENT may still use everything else; a sentinel has no ids. */
function undefinedIfForbidden(error: unknown): undefined {
  if (isErrorReply(error) && /^(NOPERM|ERR unknown)/.test(error.message)) return undefined;
  throw error;
}

/** Built in place: an array that grows by push() takes several times the room, on every call. */
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
