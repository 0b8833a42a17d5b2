/**
 * A link is one socket to one server, from its handshake to its end. It never reconnects: when it is
 * lost, every command on it is rejected at once and its owner (Connection) opens another. Separating the
 * two makes a loss visible instead of hiding it in a client's offline queue.
 *
 *   open() --> alive --+--> dead   socket closed, no reply to the heartbeat, retire()
 *                      |           (`died` resolves with the reason, once)
 *                      +--> dead   close(): waits for pending replies first
 *
 * The protocol itself is in resp/, which only this file uses.
 */
import { connect as connectSocket, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { type Address, showAddress } from "./endpoint.ts";
import {
  AuthFailedError,
  ConnectFailedError,
  reasonOf,
  ServerReplyError,
  ServerTooOldError,
  TimeoutError,
} from "./errors.ts";
import type { Argument, Reply } from "./reply.ts";
import { type ChannelListener, NoReplyError, NotSentError, Pipeline } from "./resp/pipeline.ts";
import { ReplyError } from "./resp/reply-decoder.ts";
import type { Script } from "./script.ts";
import { parseServerInfo, type ServerInfo, tooOld } from "./server-info.ts";
import { LONGEST_TIMER_MS, within } from "./wait.ts";

export type { ChannelListener } from "./resp/pipeline.ts";

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

/** What a server reports about itself and the link when it opens. */
interface Greeting extends LinkId {
  readonly server: ServerInfo;
}

/** The silence after which the operating system tests a connection. */
const KEEP_ALIVE_AFTER_MS = 5_000;

/** One live socket. */
export class Link {
  readonly server: ServerInfo;
  /** The server's id of this connection, for CLIENT UNBLOCK; undefined if it does not report it. */
  readonly clientId: number | undefined;
  readonly #runId: string | undefined;
  readonly #pipeline: Pipeline;
  readonly #options: LinkOptions;
  readonly #loaded = new Set<string>();
  #heartbeat: NodeJS.Timeout | undefined;

  private constructor(options: LinkOptions, pipeline: Pipeline, greeting: Greeting) {
    this.#pipeline = pipeline;
    this.#options = options;
    this.server = greeting.server;
    this.clientId = greeting.clientId;
    this.#runId = greeting.runId;
    if (options.heartbeatMs === 0) return;
    const everyMs = Math.min(options.heartbeatMs, LONGEST_TIMER_MS);
    this.#heartbeat = setInterval(() => void this.beat(), everyMs).unref();
    void this.died.then(() => clearInterval(this.#heartbeat));
  }

  /** Connects, authenticates, and checks that the server is supported. */
  static async open(options: LinkOptions, signal?: AbortSignal): Promise<Link> {
    const where = showAddress(options.address);
    const bounds = {
      timeoutMs: options.connectTimeoutMs,
      signal,
      what: `connecting to ${where}`,
    };
    const pipeline = new Pipeline(socketOf(options));
    try {
      const greeting = await within(greet(pipeline, options), bounds);
      const { server } = greeting;
      const needed = options.sentinel ? undefined : tooOld(server);
      if (needed !== undefined) throw new ServerTooOldError(where, server.title, needed);
      if (!pipeline.alive) throw await pipeline.died;
      return new Link(options, pipeline, greeting);
    } catch (error) {
      pipeline.destroy(error);
      if (error instanceof ServerTooOldError) throw error;
      if (isAuthError(error)) throw new AuthFailedError(where, error);
      const lost = error instanceof NoReplyError || error instanceof NotSentError;
      throw new ConnectFailedError(where, lost ? error.cause : error);
    }
  }

  /** Resolves with the reason when the link is dead. */
  get died(): Promise<unknown> {
    return this.#pipeline.died;
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
    return this.#pipeline.alive;
  }

  /** Sends a command. explainReply() and wasNeverSent() explain its rejections. */
  send(args: readonly (string | Buffer)[], binary: boolean = false): Promise<Reply> {
    return this.#pipeline.send(args, binary);
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
      if (!(error instanceof ReplyError)) throw error;
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

  /** Listens on a channel, which has one listener. The link can then carry no ordinary commands. */
  subscribe(channel: string, listener: ChannelListener): Promise<void> {
    return this.#pipeline.subscribe(channel, listener);
  }

  /** Leaves a channel. */
  unsubscribe(channel: string): Promise<void> {
    return this.#pipeline.unsubscribe(channel);
  }

  /** How many bytes the server has sent. */
  get received(): number {
    return this.#pipeline.received;
  }

  /** Tests the peer. The link dies if the server sends nothing for too long while a PING waits for its reply. */
  async beat(): Promise<void> {
    if (!this.#pipeline.open) return; // it is closing
    const bounds = { timeoutMs: this.#options.deadAfterMs, what: "a heartbeat" };
    const pong = this.send(["PING"]);
    for (;;) {
      const before = this.received;
      try {
        await within(pong, bounds);
        return;
      } catch (error) {
        if (error instanceof ReplyError) return; // LOADING, for example, shows that the peer is alive
        // After a pause of this process, its timers run before its sockets are read.
        await new Promise(setImmediate);
        // For example, a large reply is still arriving in front of the PING's.
        if (error instanceof TimeoutError && this.received !== before) continue;
        this.retire(error);
        return;
      }
    }
  }

  /** Gives up the link at once, because it is no longer of use. */
  retire(reason: unknown): void {
    this.#pipeline.destroy(reason);
  }

  /** Waits for pending replies, at most `withinMs`, then closes. */
  async close(withinMs: number): Promise<void> {
    clearInterval(this.#heartbeat);
    try {
      await within(this.#pipeline.drained(), { timeoutMs: withinMs });
    } catch {
      // too slow
    }
    this.retire(new Error("closed"));
  }
}

/** A command's rejection as a RopewayError; undefined if the link itself broke. */
export function explainReply(error: unknown, command: string): ServerReplyError | undefined {
  return error instanceof ReplyError ? new ServerReplyError(command, error) : undefined;
}

/** Whether the command never left this process, so that sending it again is always safe. */
export function wasNeverSent(error: unknown): boolean {
  return error instanceof NotSentError;
}

/** Whether Redis replied that it does not know the script. */
export function isNoScript(error: unknown): boolean {
  return error instanceof ReplyError && error.message.startsWith("NOSCRIPT");
}

function socketOf({ address, tls }: LinkOptions): Socket {
  const keepAlive = { keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_AFTER_MS };
  const options = { ...address, ...keepAlive, noDelay: true };
  if (tls === undefined) return connectSocket(options);
  // Node sends no name by itself. A proxy that serves several hosts on one address finds the server by it.
  const named = "host" in address && isIP(address.host) === 0 ? { servername: address.host } : {};
  return connectTls({ ...options, ...named, ...(tls === true ? {} : tls) });
}

/** The handshake. Its commands leave together, so it takes one round trip. */
async function greet(pipeline: Pipeline, options: LinkOptions): Promise<Greeting> {
  const { username, password = "", db = 0, name } = options;
  const send = (...args: string[]) => pipeline.send(args, false);
  const first: Promise<Reply>[] = [];
  if (username) first.push(send("AUTH", username, password));
  else if (password) first.push(send("AUTH", password));
  if (db !== 0) first.push(send("SELECT", String(db)));
  const greeting = Promise.all([
    send("INFO", "server").catch(undefinedIfForbidden),
    send("CLIENT", "ID").catch(undefinedIfForbidden),
    send("PING"), // a server that is still loading its data refuses this
    send("CLIENT", "SETNAME", name).catch(undefinedIfForbidden),
    send("CLIENT", "SETINFO", "LIB-NAME", "ropeway").catch(undefinedIfRefused), // since Redis 7.2
  ]);
  greeting.catch(ignore); // if an earlier command fails, its error is the one to report
  await Promise.all(first);
  const [info, id] = await greeting;
  return {
    server: parseServerInfo(String(info ?? "")),
    clientId: id === undefined ? undefined : Number(id),
    runId: /^run_id:(\w+)/m.exec(String(info ?? ""))?.[1],
  };
}

/** A user without permission for INFO or CLIENT may still use everything else; a sentinel has no ids. */
function undefinedIfForbidden(error: unknown): undefined {
  if (error instanceof ReplyError && /^(NOPERM|ERR unknown)/.test(error.message)) return undefined;
  throw error;
}

function undefinedIfRefused(error: unknown): undefined {
  if (!(error instanceof ReplyError)) throw error;
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
