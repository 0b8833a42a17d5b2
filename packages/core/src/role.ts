/**
 * A role is something that runs until it is closed: a worker, a server, a dispatcher, a sync task. All
 * roles of all packages have this interface. This file implements their life cycle:
 *
 *              start()            open() resolved
 *     idle ------------> starting ----------------> running <----------.
 *       ^                   |                          | pause()       | resume()
 *       '--- open() threw --'                          v               |
 *                           |                        paused -----------'
 *              close()      |                          |
 *     any  ---------------> closing -----------------> closed           (final)
 *
 * - start() is idempotent: calls made while it is in progress, or afterwards, share its outcome. If open()
 *   throws, all deferred steps are undone, start() rejects with the error, and may be called again.
 * - close() is memoised, and works during start(): it aborts the signal given to open() and undoes the completed
 *   steps. start() then rejects with ClosedError.
 * - pause() before start() is kept: the role starts paused.
 */
import { Emitter, type EventMap } from "./emitter.ts";
import { ClosedError } from "./errors.ts";
import type { Logger } from "./logger.ts";

/** The state of a role. */
export type RoleState = "idle" | "starting" | "running" | "paused" | "closing" | "closed";

/** The interface of every long-running object. */
export interface Role<M extends EventMap & Record<keyof M, unknown[]> = EventMap>
  extends AsyncDisposable {
  readonly state: RoleState;
  /** Starts the role. Rejects with a typed error and leaves nothing running if it cannot. */
  start(): Promise<this>;
  /** Takes no new work until resume(). Running work continues. */
  pause(): Promise<void>;
  /** Takes work again. */
  resume(): Promise<void>;
  /** Stops within a time limit, and releases every connection and timer. A second call waits for the first. */
  close(): Promise<void>;
  on<K extends keyof M & string>(event: K, listener: (...args: M[K]) => unknown): this;
  once<K extends keyof M & string>(event: K, listener: (...args: M[K]) => unknown): this;
  off<K extends keyof M & string>(event: K, listener: (...args: M[K]) => unknown): this;
}

/** Undoes one step of open(). */
export type Undo = () => unknown;

/** The argument of open(). */
export interface Opening {
  /** Aborted by a close() during start(). */
  readonly signal: AbortSignal;
  /** Registers how to undo a step. close() and a failed start run these in reverse order. */
  defer(undo: Undo): void;
}

/** Implements the life cycle above. A role implements open(), and hold() and release() if pausing needs work. */
export abstract class BackgroundRole<M extends EventMap & Record<keyof M, unknown[]> = EventMap>
  extends Emitter<M>
  implements Role<M>
{
  readonly #what: string;
  readonly #closing = new AbortController();
  readonly #undo: Undo[] = [];
  #state: RoleState = "idle";
  #held = false;
  #started: Promise<this> | undefined;
  #closed: Promise<void> | undefined;

  /** `what` names the role in errors, such as "the worker". */
  constructor(what: string, logger: Logger) {
    super(logger);
    this.#what = what;
  }

  get state(): RoleState {
    return this.#state === "running" && this.#held ? "paused" : this.#state;
  }

  start(): Promise<this> {
    if (this.#closed !== undefined) return Promise.reject(new ClosedError(this.#what));
    this.#started ??= this.#start();
    return this.#started;
  }

  async pause(): Promise<void> {
    if (this.#held) return;
    this.#held = true;
    if (this.#state === "running") await this.hold();
  }

  async resume(): Promise<void> {
    if (!this.#held) return;
    this.#held = false;
    if (this.#state === "running") await this.release();
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** True between pause() and resume(). */
  protected get held(): boolean {
    return this.#held;
  }

  /** Aborted as soon as close() is called. */
  protected get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Opens the resources of the role and starts its work; held if `this.held`. */
  protected abstract open(opening: Opening): Promise<void>;

  /** Stops taking work; called while running. */
  protected hold(): Promise<void> | void {}

  /** Takes work again; called while running. */
  protected release(): Promise<void> | void {}

  async #start(): Promise<this> {
    this.#state = "starting";
    const { signal } = this.#closing;
    const heldAtFirst = this.#held;
    try {
      await this.open({ signal, defer: (undo) => void this.#undo.push(undo) });
      if (signal.aborted) throw new ClosedError(this.#what);
    } catch (error) {
      await this.#undoAll();
      this.#started = undefined;
      if (!signal.aborted) this.#state = "idle";
      throw signal.aborted ? new ClosedError(this.#what) : error;
    }
    this.#state = "running";
    if (this.#held !== heldAtFirst) await (this.#held ? this.hold() : this.release());
    return this;
  }

  async #close(): Promise<void> {
    const starting = this.#started;
    this.#state = "closing";
    this.#closing.abort(new ClosedError(this.#what));
    await starting?.catch(() => {}); // the caller of start() gets the error
    await this.#undoAll();
    this.#state = "closed";
  }

  /** Runs every undo function, even if others fail. Their errors are reported. */
  async #undoAll(): Promise<void> {
    for (let undo = this.#undo.pop(); undo !== undefined; undo = this.#undo.pop()) {
      try {
        await undo();
      } catch (error) {
        this.report(error);
      }
    }
  }
}
