// What most tests of the portal need: a Redis of their own, a started portal, and short ways to ask it.
import { type ConnectOptions, connect, type Redis } from "@ropeway/core";
import { type RedisServer, startRedis } from "@ropeway/testkit";
import { AccessStore } from "../src/access/store.ts";
import type { Users } from "../src/access/users.ts";
import type { Problem } from "../src/contract.ts";
import { createPortal, type Portal, type PortalOptions, type PortalPart } from "../src/index.ts";
import { PortalKeys } from "../src/keys.ts";

export const PASSWORD = "correct horse battery";

// Made beforehand: hashing anew for each stage would be most of the tests' time.
const HASH =
  "$argon2id$v=19$m=65536,t=3,p=4$pVFEu4JSIniEbtNLcAtejg$qv0sY8ABUEQdFpqPvpfLBrao8xiCxvaZQZQ2qGUYVPI";

export interface StageOptions extends PortalOptions {
  readonly connect?: ConnectOptions;
  /** Parts that need the stage's Redis. */
  readonly partsOf?: (redis: Redis) => PortalPart[];
}

export class Stage implements AsyncDisposable {
  readonly server: RedisServer;
  readonly redis: Redis;
  readonly portal: Portal;
  readonly url: string;
  readonly keys: PortalKeys;

  private constructor(stage: Pick<Stage, "server" | "redis" | "portal" | "url" | "keys">) {
    this.server = stage.server;
    this.redis = stage.redis;
    this.portal = stage.portal;
    this.url = stage.url;
    this.keys = stage.keys;
  }

  static async open(stageOptions: StageOptions = {}): Promise<Stage> {
    const { connect: options, partsOf, ...portalOptions } = stageOptions;
    const server = await startRedis();
    const redis = await connect(server.url, options);
    const keys = new PortalKeys("ropeway");
    await new AccessStore(redis, keys).createFirstAdmin("admin", HASH);
    const parts = partsOf === undefined ? {} : { parts: partsOf(redis) };
    const portal = createPortal(redis, { ...portalOptions, ...parts });
    const { url } = await portal.start();
    return new Stage({ server, redis, portal, url, keys });
  }

  /** Asks for a path; a body that is not a text is sent as JSON. */
  ask(path: string, init: Omit<RequestInit, "body"> & { body?: unknown } = {}): Promise<Response> {
    const { body, headers, ...rest } = init;
    if (body === undefined)
      return fetch(`${this.url}${path}`, { ...rest, ...(headers && { headers }) });
    const json = typeof body !== "string";
    return fetch(`${this.url}${path}`, {
      ...rest,
      headers: { ...(json && { "content-type": "application/json" }), ...headers },
      body: json ? JSON.stringify(body) : body,
    });
  }

  /** Tries to sign in. */
  login(body: object = {}, headers: Record<string, string> = {}): Promise<Response> {
    return this.ask("/api/session", {
      method: "POST",
      headers,
      body: { username: "admin", password: PASSWORD, ...body },
    });
  }

  /** Signs in and returns the Authorization header. */
  async bearer(username = "admin"): Promise<{ authorization: string }> {
    const { token } = (await (await this.login({ username, as: "token" })).json()) as {
      token: string;
    };
    return { authorization: `Bearer ${token}` };
  }

  /** Adds an account with the admin's password. */
  async addAccount(username: string, role: string): Promise<void> {
    await this.users.create({ username, role, passwordHash: HASH });
  }

  /** The accounts, past the portal. */
  get users(): Users {
    return new AccessStore(this.redis, this.keys).users;
  }

  async close(): Promise<void> {
    await this.portal.close();
    await this.redis.close();
    await this.server.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

export function basic(username: string, password: string): { authorization: string } {
  return { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}` };
}

/** The name=value of the cookie that an answer sets. */
export function cookieOf(answer: Response): string {
  return answer.headers.getSetCookie()[0]?.split(";")[0] ?? "";
}

export async function problemOf(answer: Response): Promise<Problem> {
  if (!answer.headers.get("content-type")?.startsWith("application/problem+json")) {
    throw new Error(`${answer.status} is not a problem: ${await answer.text()}`);
  }
  return (await answer.json()) as Problem;
}
