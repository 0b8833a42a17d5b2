/**
 * A durable connection to one place: a sequence of links, one at a time. The address of the place is
 * looked up again before each link (a fixed address, a sentinel's master, a slot's owner), so
 * failover needs nothing else.
 *
 *            +------------- pause by backoff <---------- open failed
 *            v                                              |
 *   open() -> connecting ---- locate, open, prepare --------+---> ready ---- link died ---+
 *                 ^                                                                       |
 *                 +-----------------------------------------------------------------------+
 *   close() at any time: waits for pending replies (bounded), then closed permanently
 *
 * The outcome of a command when the link dies is always defined:
 *   never sent, or refused by a server that cannot run it now   -> sent again on the next link
 *   in progress, and repeatable                                 -> sent again on the next link
 *   in progress, otherwise                                      -> ConnectionLostError, at once
 *   no link for offlineWaitMs                                   -> NotConnectedError
 *
 * A command of a lost link may still be on its way to the server. If it ran after the next link repeated and undid
 * it, it would bring back a released lock. So a new link first makes the server close the lost one.
 */
import type { Address } from "./endpoint.ts";
import {
  AbortedError,
  AuthFailedError,
  ConnectFailedError,
  ConnectionClosedError,
  ConnectionLostError,
  NotConnectedError,
  RopewayError,
  ServerReplyError,
  ServerTooOldError,
  TimeoutError,
} from "./errors.ts";
import {
  explainReply,
  isNoScript,
  Link,
  type LinkId,
  type LinkOptions,
  wasNeverSent,
} from "./link.ts";
import { Listeners } from "./listeners.ts";
import type { Logger } from "./logger.ts";
import { Loop } from "./loop.ts";
import type { Argument, Reply } from "./reply.ts";
import type { Script } from "./script.ts";
import type { ServerInfo } from "./server-info.ts";
import { meterOf } from "./telemetry.ts";
import { type Deferred, deferred, LONGEST_TIMER_MS, sleep, within } from "./wait.ts";
import { whenAborted } from "./when-aborted.ts";

/** How to send one command. */
export interface SendOptions {
  /** A key of the command: Cluster routes by it. Commands without a key go to any node. */
  readonly key?: string | undefined;
  /** Return bulk strings as Buffers. */
  readonly binary?: boolean | undefined;
  /** Sending it twice is harmless: after a loss it is repeated instead of rejected. */
  readonly repeatable?: boolean | undefined;
}

/** The parameters of a Connection; created by connect(), sentinel or cluster. */
export interface ConnectionPlan {
  /** The server's address, for messages. */
  readonly where: string;
  readonly link: Omit<LinkOptions, "address">;
  /** How long a command may wait for a link before it is rejected as never sent. */
  readonly offlineWaitMs: number;
  /** How long close() waits for pending replies. */
  readonly closeWithinMs: number;
  readonly logger: Logger;
  /** Looks up the current address of the server. */
  locate(signal: AbortSignal): Promise<Address>;
  /** Prepares a new link (role check, subscriptions) before it is used. */
  prepare?(link: Link): Promise<void>;
  /** Called once, when close() has finished. */
  readonly onClosed?: (() => void) | undefined;
}

/** A command that can be issued on any link. */
export interface Operation<T = Reply> {
  readonly label: string;
  readonly repeatable: boolean;
  /** Ends the wait for a link with AbortedError. A command in progress is not affected. */
  readonly signal?: AbortSignal | undefined;
  issue(link: Link): Promise<T>;
  /** How to issue it after NOSCRIPT; if undefined, NOSCRIPT is an ordinary error reply. */
  readonly afterNoScript?: (link: Link) => Promise<T>;
}

const RECONNECT = { baseMs: 25, maxMs: 2_000 };
/** A link that dies sooner than this counts as a failed attempt, which prevents a busy loop on an unstable server. */
const YOUNG_MS = 1_000;
const BUSY_PAUSE_MS = 50;

/** Replies of a server that cannot run writes now and did not run the command. */
const WRONG_SERVER = new Set(["READONLY", "UNBLOCKED"]);
const NOT_NOW = new Set(["LOADING", "MASTERDOWN", "TRYAGAIN", "BUSY", "CLUSTERDOWN"]);

/** Sends the commands for one place over as many links as needed. */
export class Connection implements AsyncDisposable {
  readonly #plan: ConnectionPlan;
  readonly #loop: Loop;
  readonly #waiting = new Set<Deferred<Link>>();
  readonly #lost = new Listeners<[ConnectionLostError]>();
  readonly #ready = new Listeners();
  // Created here and not at load time, because an SDK that is installed later would not receive them.
  readonly #links = meterOf("core").createCounter("ropeway.redis.links", {
    description: "Connections that became ready",
  });
  readonly #losses = meterOf("core").createCounter("ropeway.redis.losses", {
    description: "Connections that were lost",
  });
  #link: Link | undefined;
  /** The last lost link, as its server identifies it. */
  #lostLink: LinkId | undefined;
  #server: ServerInfo | undefined;
  #failure: unknown;
  #closed: Promise<void> | undefined;

  constructor(plan: ConnectionPlan) {
    this.#plan = plan;
    this.#loop = new Loop({
      tick: (signal) => this.#live(signal),
      onError: (error) => this.#failed(error),
      backoff: RECONNECT,
    }).start();
  }

  /** Waits for the first link. Throws at once if the server refuses it permanently. */
  async opened(waitMs: number): Promise<this> {
    try {
      await this.link(waitMs);
      return this;
    } catch (error) {
      await this.close();
      if (!(error instanceof NotConnectedError)) throw error;
      if (error.cause instanceof RopewayError) throw error.cause;
      const why = error.cause ?? new TimeoutError("the first attempt", waitMs);
      throw new ConnectFailedError(this.where, why);
    }
  }

  get where(): string {
    return this.#plan.where;
  }

  get connected(): boolean {
    return this.#link !== undefined;
  }

  /** The current link. */
  get current(): Link | undefined {
    return this.#link;
  }

  /** The server of the newest link. */
  get server(): ServerInfo | undefined {
    return this.#server;
  }

  /** Sends one command. Commands of one tick are sent in one write. */
  send<T extends Reply = Reply>(
    args: readonly (string | Buffer)[],
    options?: SendOptions,
  ): Promise<T> {
    const link = this.#link;
    const reply =
      link === undefined
        ? this.issue(sendOf(args, options))
        : link
            .send(args, options?.binary)
            .then(undefined, (error) => this.issue(sendOf(args, options), error));
    return reply as Promise<T>;
  }

  /** Runs a script. */
  run<T>(script: Script<T>, keys: readonly string[], args: readonly Argument[]): Promise<T> {
    const link = this.#link;
    if (link === undefined) return this.#rerun(script, runOf(script, keys, args));
    // Adds only one promise to the client's own, because this is the hottest line of Ropeway.
    return link
      .run(script, keys, args)
      .then(script.parse, (error) =>
        this.#rerun(script, runOf(script, keys, args), error),
      ) as Promise<T>;
  }

  async #rerun<T>(script: Script<T>, operation: Operation, error?: unknown): Promise<T> {
    const reply = await this.issue(operation, error);
    return script.parse === undefined ? (reply as T) : script.parse(reply);
  }

  /** The current link, or the next one if it opens within `waitMs`. */
  async link(waitMs: number, signal?: AbortSignal): Promise<Link> {
    if (this.#closed !== undefined) throw new ConnectionClosedError(this.where);
    if (this.#link !== undefined) return this.#link;
    const waiter = deferred<Link>();
    this.#waiting.add(waiter);
    const timer = setTimeout(
      () => waiter.reject(new NotConnectedError(this.where, waitMs, this.#failure)),
      Math.min(waitMs, LONGEST_TIMER_MS),
    );
    const onAbort = () => waiter.reject(new AbortedError("a wait for a connection"));
    if (signal?.aborted) onAbort();
    const stopListening = signal && whenAborted(signal, onAbort);
    try {
      return await waiter.promise;
    } finally {
      clearTimeout(timer);
      stopListening?.();
      this.#waiting.delete(waiter);
    }
  }

  /** Gives up the current link, because its server is the wrong one. */
  relocate(reason: unknown): void {
    this.#link?.retire(reason);
  }

  /** Calls the listener at each connection loss; returns an unsubscribe function. */
  onLost(listener: (error: ConnectionLostError) => void): () => void {
    return this.#lost.add(listener);
  }

  /** Calls the listener each time a link is ready; returns an unsubscribe function. */
  onReady(listener: () => void): () => void {
    return this.#ready.add(listener);
  }

  /** Waits for pending replies (bounded), then closes. Later commands are refused. */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    // Before any await, so that a link that is lost or opened meanwhile gets no successor.
    const ended = this.#loop.close();
    const closed = new ConnectionClosedError(this.where);
    for (const waiter of this.#waiting) waiter.reject(closed);
    await this.#link?.close(this.#plan.closeWithinMs);
    await ended;
    this.#plan.onClosed?.();
  }

  /** Opens one link and waits until it dies. */
  async #live(signal: AbortSignal): Promise<number> {
    const address = await this.#plan.locate(signal);
    const link = await Link.open({ ...this.#plan.link, address }, signal);
    try {
      const { connectTimeoutMs } = this.#plan.link;
      await within(this.#prepare(link), {
        timeoutMs: connectTimeoutMs,
        signal,
        what: "preparing a connection",
      });
    } catch (error) {
      link.retire(error);
      throw error;
    }
    if (signal.aborted) return link.close(0).then(() => 0);
    const born = performance.now();
    this.#becomeReady(link);
    const reason = await link.died;
    this.#link = undefined;
    this.#lostLink = link.id;
    if (this.#closed === undefined) this.#becomeLost(reason);
    return performance.now() - born < YOUNG_MS ? RECONNECT.baseMs * 2 : 0;
  }

  async #prepare(link: Link): Promise<void> {
    if (this.#lostLink !== undefined) await link.replace(this.#lostLink);
    await this.#plan.prepare?.(link);
  }

  #becomeReady(link: Link): void {
    this.#link = link;
    this.#server = link.server;
    this.#failure = undefined;
    this.#links.add(1, { connection: this.#plan.link.name });
    for (const waiter of this.#waiting) waiter.resolve(link);
    this.#ready.tell();
  }

  #becomeLost(reason: unknown): void {
    const error = new ConnectionLostError(this.where, reason);
    this.#failure = error;
    this.#losses.add(1, { connection: this.#plan.link.name });
    this.#plan.logger.warn({ where: this.where, err: error }, "connection lost, reconnecting");
    this.#lost.tell(error);
  }

  #failed(error: unknown): void {
    this.#failure = error;
    this.#plan.logger.debug({ where: this.where, err: error }, "cannot connect yet");
    if (!isPermanent(error)) return;
    // Waiting would not help; the loop continues in case an operator fixes it.
    for (const waiter of this.#waiting) waiter.reject(error);
  }

  /** Issues the operation until it has an outcome; `error` is the error of an earlier attempt. */
  async issue<T>(operation: Operation<T>, error?: unknown): Promise<T> {
    const until = performance.now() + this.#plan.offlineWaitMs;
    let failure = error;
    for (;;) {
      if (failure !== undefined) await this.#settle(failure, operation, until);
      const link = await this.link(Math.max(0, until - performance.now()), operation.signal);
      const { afterNoScript } = operation;
      try {
        if (afterNoScript !== undefined && isNoScript(failure)) return await afterNoScript(link);
        return await operation.issue(link);
      } catch (next) {
        failure = next;
      }
    }
  }

  /** Returns if the operation may be issued again; throws its final error if not. */
  async #settle(failure: unknown, operation: Operation<unknown>, until: number): Promise<void> {
    const reply = explainReply(failure, operation.label);
    if (reply === undefined) {
      if (failure instanceof TypeError) throw failure; // an argument that is neither a string nor bytes
      if (wasNeverSent(failure)) return;
      // After close() there is no next link, and a "closed" error would mean that it was never sent.
      if (operation.repeatable && this.#closed === undefined) return;
      throw new ConnectionLostError(this.where, failure);
    }
    if (operation.afterNoScript !== undefined && isNoScript(failure)) return;
    if (WRONG_SERVER.has(reply.prefix)) this.relocate(reply);
    else if (NOT_NOW.has(reply.prefix)) await sleep(BUSY_PAUSE_MS);
    else throw reply;
    if (performance.now() > until) throw reply;
  }
}

function sendOf(args: readonly (string | Buffer)[], options: SendOptions | undefined): Operation {
  return {
    label: String(args[0]),
    repeatable: options?.repeatable === true,
    issue: (link) => link.send(args, options?.binary),
  };
}

function runOf(
  script: Script<unknown>,
  keys: readonly string[],
  args: readonly Argument[],
): Operation {
  return {
    label: script.name,
    repeatable: script.idempotent,
    issue: (link) => link.run(script, keys, args),
    afterNoScript: (link) => link.eval(script, keys, args),
  };
}

/** Whether no retry can fix it: a wrong password, a server that is too old. */
export function isPermanent(error: unknown): boolean {
  return error instanceof AuthFailedError || error instanceof ServerTooOldError;
}

/** Whether the server replied to a command with this error word. */
export function isReply(error: unknown, prefix: string): error is ServerReplyError {
  return error instanceof ServerReplyError && error.prefix === prefix;
}
