/**
 * A portal's life:
 *
 *   createPortal() --> new -- start() --> started -- close() --> closed
 *                       '---------------- close() ----------------^
 *
 * It is given a Redis and leaves it open: whoever connected closes.
 */
import type { AddressInfo } from "node:net";
import type { Redis } from "@ropeway/core";
import { within } from "@ropeway/core/internal";
import fastify, { type FastifyInstance } from "fastify";
import { ensureFirstAdmin, type FirstAdmin } from "./access/first-admin.ts";
import { PasswordHasher } from "./access/hasher.ts";
import { PortalStateError } from "./errors.ts";
import { PortalKeys } from "./keys.ts";
import { type PortalOptions, type ResolvedPortalOptions, resolvePortalOptions } from "./options.ts";

/** What start() tells its caller. */
export interface PortalStart {
  /** Where the portal answers, such as http://127.0.0.1:7480. */
  readonly url: string;
  /** The account that this very start created; undefined on every later one. */
  readonly firstAdmin: FirstAdmin | undefined;
}

/** The HTTP side of an installation. */
export interface Portal extends AsyncDisposable {
  /** Where it answers; undefined until it does. */
  readonly url: string | undefined;
  /** Creates the first admin if there is none, and listens. */
  start(): Promise<PortalStart>;
  /** Lets requests under way finish (bounded) and stops; the Redis stays open. */
  close(): Promise<void>;
}

/** Makes a portal on a Redis that is connected already; start() makes it listen. */
export function createPortal(redis: Redis, options?: PortalOptions): Portal {
  return new HttpPortal(redis, resolvePortalOptions(options));
}

class HttpPortal implements Portal {
  readonly #redis: Redis;
  readonly #options: ResolvedPortalOptions;
  readonly #app: FastifyInstance;
  #state: "new" | "started" | "closed" = "new";
  #url: string | undefined;
  #closed: Promise<void> | undefined;

  constructor(redis: Redis, options: ResolvedPortalOptions) {
    this.#redis = redis;
    this.#options = options;
    this.#app = fastify({ bodyLimit: options.bodyLimit });
  }

  get url(): string | undefined {
    return this.#url;
  }

  async start(): Promise<PortalStart> {
    if (this.#state !== "new") throw new PortalStateError(this.#state);
    this.#state = "started";
    const { host, port, prefix, adminUsername, adminPassword } = this.#options;
    this.#app.get("/healthz", async () => ({ status: "ok" }));
    const firstAdmin = await ensureFirstAdmin(this.#redis, {
      keys: new PortalKeys(prefix),
      hasher: new PasswordHasher(),
      username: adminUsername,
      password: adminPassword,
    });
    await this.#app.listen({ host, port });
    this.#url = urlOf(host, this.#app.server.address() as AddressInfo);
    return { url: this.#url, firstAdmin };
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#state = "closed";
    this.#url = undefined;
    const closing = this.#app.close();
    const { closeWithinMs } = this.#options;
    await within(closing, { timeoutMs: closeWithinMs }).catch(() => {
      this.#app.server.closeAllConnections();
    });
    await closing;
  }
}

/** An address a browser on this machine can open, also when we listen on all of them. */
function urlOf(host: string, { port, family }: AddressInfo): string {
  if (host === "0.0.0.0" || host === "::") {
    return `http://${family === "IPv6" ? "[::1]" : "127.0.0.1"}:${port}`;
  }
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
