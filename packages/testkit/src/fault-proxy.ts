// A TCP proxy in front of a real server that simulates network faults.
//
//   code under test --> FaultProxy --> server
//
// Faults apply to open and new connections until heal(). They combine: `delay(50)` and `split(1)`
// deliver single bytes with a delay.

import { connect, createServer, type NetConnectOpts, type Server, type Socket } from "node:net";
import { TestkitError } from "./errors.ts";
import { freePort } from "./port.ts";
import { type Faults, HEALTHY, ProxyLane } from "./proxy-lane.ts";
import { noteClosed, noteOpened, type Opened } from "./registry.ts";

/** The server behind a proxy: a `RedisServer`, an `EtcdMember`, or host and port. */
export interface ProxyTarget {
  readonly host: string;
  readonly port: number;
  readonly socketPath?: string | undefined;
  readonly url?: string;
}

/** Starts a proxy without faults in front of `target`. */
export async function startProxy(target: ProxyTarget): Promise<FaultProxy> {
  for (let draw = 1; ; draw++) {
    const proxy = new FaultProxy(target, await freePort());
    try {
      await proxy.listen();
      noteOpened(proxy);
      return proxy;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE" || draw === 10) throw error;
    }
  }
}

/** A started proxy. */
export class FaultProxy implements Opened, AsyncDisposable {
  readonly host = "127.0.0.1";
  readonly port: number;
  readonly #target: ProxyTarget;
  readonly #pairs = new Set<ProxiedPair>();
  #faults: Faults = HEALTHY;
  #server: Server | undefined;
  #closed = false;

  constructor(target: ProxyTarget, port: number) {
    this.#target = target;
    this.port = port;
  }

  /** The target's URL, including its password, with the proxy's address. */
  get url(): string {
    const { host, port, url, socketPath } = this.#target;
    if (url === undefined) return `redis://${this.host}:${this.port}`;
    if (socketPath !== undefined) {
      const secret = url.match(/^unix:\/\/(.*@)?/)?.[1] ?? "";
      return `redis://${secret}${this.host}:${this.port}`;
    }
    return url.replace(`${host}:${port}`, `${this.host}:${this.port}`);
  }

  /** The number of clients connected to the proxy. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Delays bytes by `ms` in each direction, so a round trip takes twice as long. */
  delay(ms: number): void {
    this.#change({ delayMs: ms });
  }

  /** Limits each direction of each connection to this number of bytes per second. */
  throttle(bytesPerSecond: number): void {
    this.#change({ bytesPerSecond });
  }

  /** Limits each write to `bytes`, so that one packet arrives in several pieces. */
  split(bytes: number): void {
    this.#change({ pieceBytes: bytes });
  }

  /**
   * Holds back all bytes and the end of each connection, while both sides see it as open. New
   * connections are accepted and held back too. heal() delivers the bytes.
   */
  halfOpen(): void {
    this.#change({ halfOpen: true });
  }

  /** Resets all open connections on both sides. New ones are accepted. */
  cut(): void {
    for (const pair of this.#pairs) pair.reset();
  }

  /** Refuses new connections (ECONNREFUSED). Open ones stay. */
  refuse(): void {
    const server = this.#server;
    this.#server = undefined;
    // Without a callback, because that also waits for the connections. Listening ends at once.
    server?.close();
  }

  /** Ends all faults. Open connections continue, and new ones are accepted on the same port. */
  async heal(): Promise<void> {
    if (this.#closed) throw new TestkitError("NOT_RUNNING", `${this.describe()} is closed`);
    this.#change(HEALTHY);
    if (this.#server === undefined) await this.listen();
  }

  #change(faults: Partial<Faults>): void {
    this.#faults = { ...this.#faults, ...faults };
    for (const pair of this.#pairs) pair.kick();
  }

  /** @internal Used by `startProxy` and `heal`. */
  listen(): Promise<void> {
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      const pair = new ProxiedPair(client, this.#target, () => this.#faults);
      this.#pairs.add(pair);
      void pair.ended.then(() => this.#pairs.delete(pair));
    });
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen({ host: this.host, port: this.port, exclusive: true }, () => {
        this.#server = server;
        resolve();
      });
    });
  }

  describe(): string {
    return `proxy ${this.host}:${this.port}`;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const pairs = [...this.#pairs];
    for (const pair of pairs) pair.reset();
    this.refuse();
    await Promise.all(pairs.map((pair) => pair.ended));
    noteClosed(this);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** One client, its connection to the target, and the two lanes between them. */
class ProxiedPair {
  readonly ended: Promise<void>;
  readonly #client: Socket;
  readonly #server: Socket;
  readonly #lanes: readonly ProxyLane[];
  readonly #faults: () => Faults;
  /** The side that is a Unix socket and so cannot be reset. */
  readonly #local: Socket | undefined;
  #broken = false;

  constructor(client: Socket, target: ProxyTarget, faults: () => Faults) {
    this.#client = client;
    this.#faults = faults;
    this.#server = connect({ ...addressOf(target), allowHalfOpen: true, noDelay: true });
    this.#local = target.socketPath === undefined ? undefined : this.#server;
    this.#lanes = [
      new ProxyLane(client, this.#server, faults),
      new ProxyLane(this.#server, client, faults),
    ];
    const sides = [client, this.#server];
    for (const side of sides) {
      // The other end caused this error. Both sides are reset.
      side.on("error", () => this.#break());
    }
    const closed = sides.map((side) => new Promise((resolve) => side.once("close", resolve)));
    // Not awaited: Node may never call the callback of a write to a socket that is reset meanwhile.
    for (const lane of this.#lanes) void lane.run();
    this.ended = Promise.all(closed).then(() => {});
  }

  kick(): void {
    if (this.#broken && !this.#faults().halfOpen) this.reset();
    for (const lane of this.#lanes) lane.kick();
  }

  // A half-open network also holds back the reset of a broken side.
  #break(): void {
    this.#broken = true;
    this.kick();
  }

  reset(): void {
    for (const lane of this.#lanes) lane.close();
    for (const side of [this.#client, this.#server]) {
      if (side !== this.#local && canReset(side)) side.resetAndDestroy();
      else side.destroy();
    }
  }
}

// Node never closes a socket that is reset while its end is being sent. libuv refuses the reset, and
// the handle is then marked as closing.
function canReset({ connecting, writableEnded, writableFinished }: Socket): boolean {
  return !connecting && writableEnded === writableFinished;
}

function addressOf({ host, port, socketPath }: ProxyTarget): NetConnectOpts {
  return socketPath === undefined ? { host, port } : { path: socketPath };
}
