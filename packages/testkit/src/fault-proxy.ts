// A TCP proxy in front of a real server that behaves like a bad network on demand.
//
//   code under test --> FaultProxy --> server
//
// Faults hold for the connections there are and for those to come, until heal(). They add up:
// `delay(50)` and `split(1)` together deliver single bytes, late.

import { connect, createServer, type NetConnectOpts, type Server, type Socket } from "node:net";
import { TestkitError } from "./errors.ts";
import { freePort } from "./port.ts";
import { type Faults, HEALTHY, ProxyLane } from "./proxy-lane.ts";
import { noteClosed, noteOpened, type Opened } from "./registry.ts";

/** Anything that listens: a `RedisServer`, an `EtcdServer`, or host and port. */
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

  /** The target's URL, password and all, with the proxy's address. */
  get url(): string {
    const { host, port, url, socketPath } = this.#target;
    if (url === undefined) return `redis://${this.host}:${this.port}`;
    if (socketPath !== undefined) {
      const secret = url.match(/^unix:\/\/(.*@)?/)?.[1] ?? "";
      return `redis://${secret}${this.host}:${this.port}`;
    }
    return url.replace(`${host}:${port}`, `${this.host}:${this.port}`);
  }

  /** How many clients are connected to the proxy. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Bytes arrive `ms` late, each way: an answer takes twice that. */
  delay(ms: number): void {
    this.#change({ delayMs: ms });
  }

  /** The maximum number of bytes per second, in each direction of each connection. */
  throttle(bytesPerSecond: number): void {
    this.#change({ bytesPerSecond });
  }

  /** No write is longer than `bytes`: what was one packet arrives in pieces. */
  split(bytes: number): void {
    this.#change({ pieceBytes: bytes });
  }

  /**
   * Nothing comes through any more, not even the end of a connection, while both sides believe in
   * it; new connections are accepted into the same silence. heal() delivers what was held back.
   */
  halfOpen(): void {
    this.#change({ halfOpen: true });
  }

  /** Resets every connection there is, on both sides; new ones are accepted. */
  cut(): void {
    for (const pair of this.#pairs) pair.reset();
  }

  /** Accepts no new connection (ECONNREFUSED); those there are stay. */
  refuse(): void {
    const server = this.#server;
    this.#server = undefined;
    // The callback would wait for the connections too; not listening any more is immediate.
    server?.close();
  }

  /** Ends every fault: connections that survived go on, new ones are accepted on the same port. */
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
  /** The side that is no TCP and so knows no reset. */
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
      // An error here is the other end's doing: it is passed on as a reset.
      side.on("error", () => this.#break());
    }
    const closed = sides.map((side) => new Promise((resolve) => side.once("close", resolve)));
    // Not the lanes' own ends: a write to a socket that is reset meanwhile may never be called back.
    for (const lane of this.#lanes) void lane.run();
    this.ended = Promise.all(closed).then(() => {});
  }

  kick(): void {
    if (this.#broken && !this.#faults().halfOpen) this.reset();
    for (const lane of this.#lanes) lane.kick();
  }

  // In a half-open network the news of a broken side does not get through either.
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

// Node leaves a socket open for good when it is reset while its end is still on the way: libuv
// refuses, and the handle then takes itself for closing.
function canReset({ connecting, writableEnded, writableFinished }: Socket): boolean {
  return !connecting && writableEnded === writableFinished;
}

function addressOf({ host, port, socketPath }: ProxyTarget): NetConnectOpts {
  return socketPath === undefined ? { host, port } : { path: socketPath };
}
