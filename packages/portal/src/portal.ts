/**
 * A portal's life:
 *
 *   createPortal() --> new -- start() --> started -- close() --> closing ----> closed
 *                       |                                        1. /readyz says 503, all else goes on
 *                       |                                           for closeDelayMs
 *                       |                                        2. event streams end, no new
 *                       |                                           connections; requests under way
 *                       |                                           finish within closeWithinMs
 *                       |                                        3. parts close
 *                       '---------------- close() --------------------------------^
 *
 * The portal does not close its Redis connection. The caller that opened the connection closes it.
 */
import type { AddressInfo } from "node:net";
import type { Redis } from "@ropeway/core";
import { requireRedis, sleep, within } from "@ropeway/core/internal";
import { ensureFirstAdmin, type FirstAdmin } from "./access/first-admin.ts";
import { type Assembly, assemble } from "./assembly.ts";
import { ListenFailedError, PortalStateError } from "./errors.ts";
import { buildApp } from "./http/app.ts";
import { Connections } from "./http/connections.ts";
import type { ListedRoute } from "./http/route-table.ts";
import { type PortalOptions, type ResolvedPortalOptions, resolvePortalOptions } from "./options.ts";
import type { PortalApp } from "./part.ts";

/** The result of start(). */
export interface PortalStart {
  /** The URL of the portal, such as http://127.0.0.1:7480. */
  readonly url: string;
  /** The account that this start created; undefined if there was an account already. */
  readonly firstAdmin: FirstAdmin | undefined;
}

/** The HTTP side of an installation. */
export interface Portal extends AsyncDisposable {
  /** Its URL; undefined until it listens. */
  readonly url: string | undefined;
  /** Every route it has; empty until it is started. */
  readonly routes: readonly ListedRoute[];
  /** Listens, and creates the first admin if there is no account. */
  start(): Promise<PortalStart>;
  /** Lets requests under way finish (bounded) and stops; the Redis stays open. */
  close(): Promise<void>;
}

/** Makes a portal on a Redis that is connected already; start() makes it listen. */
export function createPortal(redis: Redis, options?: PortalOptions): Portal {
  requireRedis(redis);
  return new HttpPortal(redis, resolvePortalOptions(options));
}

class HttpPortal implements Portal {
  readonly #options: ResolvedPortalOptions;
  readonly #assembly: Assembly;
  #app: PortalApp | undefined;
  #connections: Connections | undefined;
  #url: string | undefined;
  #starting: Promise<PortalStart> | undefined;
  #closed: Promise<void> | undefined;

  constructor(redis: Redis, options: ResolvedPortalOptions) {
    this.#options = options;
    this.#assembly = assemble(redis, options);
  }

  get url(): string | undefined {
    return this.#url;
  }

  get routes(): readonly ListedRoute[] {
    return this.#assembly.plan.routes.routes;
  }

  async start(): Promise<PortalStart> {
    if (this.#closed !== undefined) throw new PortalStateError("closed");
    if (this.#starting !== undefined) throw new PortalStateError("started");
    this.#starting = this.#start();
    try {
      return await this.#starting;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #start(): Promise<PortalStart> {
    const { host, port, adminUsername, adminPassword } = this.#options;
    const { plan, store, hasher, clock } = this.#assembly;
    const app = await buildApp(plan);
    this.#app = app;
    this.#connections = new Connections(app.server);
    await app.listen({ host, port }).catch((error) => {
      throw new ListenFailedError(`${host}:${port}`, error);
    });
    await clock.start();
    // Only now: if the port had been taken, the password would have been lost.
    const firstAdmin = await ensureFirstAdmin({
      store,
      hasher,
      username: adminUsername,
      password: adminPassword,
    });
    // A Redis that is full refuses the mark. The next login writes it.
    await store
      .mark()
      .catch((error) => app.log.warn({ err: error }, "the Redis of the sessions was not marked"));
    this.#url = urlOf(host, app.server.address() as AddressInfo);
    return { url: this.#url, firstAdmin };
  }

  async #close(): Promise<void> {
    await this.#starting?.catch(() => undefined); // start() itself rejects with it
    const { closeDelayMs, closeWithinMs } = this.#options;
    const { plan, parts, readiness, clock } = this.#assembly;
    readiness.drain();
    if (this.#url !== undefined && closeDelayMs > 0) await sleep(closeDelayMs);
    plan.streams.close();
    if (this.#app !== undefined) await this.#closeApp(this.#app, closeWithinMs);
    this.#url = undefined;
    const closing = Promise.all([clock.close(), ...parts.map(async (part) => part.close?.())]);
    await within(closing, { timeoutMs: closeWithinMs, what: "closing the portal's parts" });
  }

  async #closeApp(app: PortalApp, withinMs: number): Promise<void> {
    const cut = setTimeout(() => this.#connections?.cut(), withinMs);
    try {
      this.#connections?.close();
      await app.close();
    } finally {
      clearTimeout(cut);
    }
  }
}

/** An address a browser on this machine can open, also when we listen on all of them. */
function urlOf(host: string, { port, family }: AddressInfo): string {
  if (host === "0.0.0.0" || host === "::") {
    return `http://${family === "IPv6" ? "[::1]" : "127.0.0.1"}:${port}`;
  }
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
