/**
 * Floods a portal, as a viewer and without an account: requests for missing resources, wrong passwords, event
 * streams and slow bodies. Meanwhile an admin uses it.
 */
import { Agent, type IncomingMessage, request } from "node:http";
import { connect as connectSocket, type Socket } from "node:net";
import { type RedisServer, spawnScript, startRedis } from "@ropeway/testkit";

/** The size of the flood. */
export interface FloodPlan {
  /** The number of requests of the viewer. The same number is sent without an account. */
  readonly requests: number;
  readonly streams: number;
  readonly slowBodies: number;
}

/** The results of a run. */
export interface FloodReport {
  readonly statuses: ReadonlyMap<number, number>;
  readonly perSecond: number;
  readonly streamsOpened: number;
  readonly streamsRefused: number;
  readonly slowBodiesCut: number;
  readonly memoryMib: { readonly before: number; readonly most: number; readonly after: number };
  readonly connections: { readonly before: number; readonly most: number; readonly after: number };
  readonly keys: { readonly before: number; readonly after: number };
  /** Latencies of the admin's requests in ms. */
  readonly adminMs: { readonly idleP99: number; readonly p50: number; readonly p99: number };
  readonly adminFailures: number;
}

const PASSWORD = "correct horse battery";
const IN_FLIGHT = 64;

type Headers = Record<string, string>;

/** Starts a portal and floods it. */
export async function flood(plan: FloodPlan): Promise<FloodReport> {
  await using server = await startRedis();
  const child = new URL("./portal.ts", import.meta.url);
  await using portal = await spawnScript(child, { args: [server.url, PASSWORD] });
  const [, url = ""] = await portal.waitForLine(/^ready (\S+)$/, { withinMs: 60_000 });
  const agent = new Agent({ keepAlive: true, maxSockets: IN_FLIGHT });
  const site = new Site(url, agent);
  try {
    const report = await attack(site, server, plan);
    portal.send("stop");
    await portal.exited;
    return report;
  } finally {
    agent.destroy();
  }
}

async function attack(site: Site, server: RedisServer, plan: FloodPlan): Promise<FloodReport> {
  const admin = await site.signIn("admin");
  const body = { username: "vera", role: "viewer", password: PASSWORD };
  await site.ask("POST", "/api/users", { headers: admin, body });
  const viewer = await site.signIn("vera");
  const paths = await site.readablePaths();
  const idle = await site.latencies(admin, 200);
  // Creates the queue for the event streams before the flood, which throttles later logins from this address.
  const job = { name: "any", data: {} };
  await site.ask("POST", "/api/jobs/queues/flood/jobs", { headers: admin, body: job });
  const figures = new Figures(site, server, admin);
  const before = await figures.now();
  figures.start();

  const statuses = new Map<number, number>();
  const began = performance.now();
  const run = (headers: Headers) =>
    inParallel(plan.requests, async (i) => {
      const path = (paths[i % paths.length] ?? "/").replace(/\{[^}]+\}/g, () => `x${i}`);
      const status =
        i % 500 === 0
          ? await site.status("POST", "/api/session", {
              body: { username: `x${i % 7}`, password: "wrong password" },
            })
          : await site.status("GET", path, { headers });
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    });
  await run(viewer);
  await run({});
  const perSecond = Math.round((plan.requests * 2_000) / (performance.now() - began));

  const streams = await site.openStreams(viewer, plan.streams);
  const slow = site.openSlowBodies(plan.slowBodies);
  const slowBodiesCut = await slow;
  for (const stream of streams.open) stream.destroy();

  await figures.stop();
  const after = await figures.settled(before);
  return {
    statuses,
    perSecond,
    streamsOpened: streams.open.length,
    streamsRefused: streams.refused,
    slowBodiesCut,
    memoryMib: { before: before.memoryMib, most: figures.mostMemoryMib, after: after.memoryMib },
    connections: {
      before: before.connections,
      most: figures.mostConnections,
      after: after.connections,
    },
    keys: { before: before.keys, after: after.keys },
    adminMs: {
      idleP99: percentile(idle, 99),
      p50: percentile(figures.latencies, 50),
      p99: percentile(figures.latencies, 99),
    },
    adminFailures: figures.failures,
  };
}

interface Ask {
  readonly headers?: Headers;
  readonly body?: unknown;
  /** The agent of the request. @default the shared one */
  readonly agent?: Agent;
}

/** A client of the portal. */
class Site {
  readonly #url: URL;
  readonly #agent: Agent;

  constructor(url: string, agent: Agent) {
    this.#url = new URL(url);
    this.#agent = agent;
  }

  async signIn(username: string): Promise<Headers> {
    const body = { username, password: PASSWORD, as: "token" };
    const { token } = JSON.parse((await this.ask("POST", "/api/session", { body })).text);
    return { authorization: `Bearer ${token}` };
  }

  /** All paths with GET, except event streams. */
  async readablePaths(): Promise<string[]> {
    const { paths } = JSON.parse((await this.ask("GET", "/openapi.json")).text) as {
      paths: Record<string, { get?: { responses: Record<string, { content?: object }> } }>;
    };
    return Object.entries(paths)
      .filter(([, { get }]) => get !== undefined)
      .filter(([, { get }]) => !Object.hasOwn(get?.responses["200"]?.content ?? {}, EVENTS))
      .map(([path]) => path)
      .filter((path) => !path.endsWith("/events"));
  }

  async status(method: string, path: string, how: Ask): Promise<number> {
    return (await this.ask(method, path, how)).status;
  }

  async ask(method: string, path: string, { headers = {}, body }: Ask = {}) {
    const response = await this.#send(method, path, { headers, body });
    let text = "";
    for await (const chunk of response.setEncoding("utf8")) text += chunk;
    return { status: response.statusCode ?? 0, text };
  }

  /** The durations of `count` requests. */
  async latencies(headers: Headers, count: number): Promise<number[]> {
    const taken: number[] = [];
    for (let i = 0; i < count; i++) {
      const sent = performance.now();
      await this.ask("GET", "/api/session", { headers });
      taken.push(performance.now() - sent);
    }
    return taken;
  }

  /** Opens event streams of an existing queue. The caller closes them. */
  async openStreams(headers: Headers, count: number) {
    const open: Socket[] = [];
    let refused = 0;
    await inParallel(count, async () => {
      const path = "/api/jobs/queues/flood/events";
      const response = await this.#send("GET", path, { headers, agent: new Agent() });
      if (response.statusCode === 200) {
        response.on("error", () => {});
        open.push(response.socket);
        response.resume();
      } else {
        refused += 1;
        response.resume();
      }
    });
    return { open, refused };
  }

  /** Sends endless bodies. Resolves to the number that the portal ended with 408. */
  async openSlowBodies(count: number): Promise<number> {
    const cuts = Array.from({ length: count }, () => {
      return new Promise<number>((resolve) => {
        const socket = connectSocket(Number(this.#url.port), this.#url.hostname);
        const drip = setInterval(() => socket.write(" "), 1_000);
        const giveUp = setTimeout(() => socket.destroy(new Error("not cut")), 30_000);
        let answer = "";
        socket.on("data", (chunk) => {
          answer += chunk;
        });
        socket.on("error", () => {});
        socket.on("close", () => {
          clearInterval(drip);
          clearTimeout(giveUp);
          resolve(answer.startsWith("HTTP/1.1 408") ? 1 : 0);
        });
        socket.write(
          "POST /api/session HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9999\r\n\r\n{",
        );
      });
    });
    return (await Promise.all(cuts)).reduce((sum, cut) => sum + cut, 0);
  }

  #send(method: string, path: string, how: Ask): Promise<IncomingMessage> {
    const { headers = {}, body, agent = this.#agent } = how;
    const text = body === undefined ? undefined : JSON.stringify(body);
    const type: Headers = text === undefined ? {} : { "content-type": "application/json" };
    return new Promise((resolve, reject) => {
      const { hostname: host, port } = this.#url;
      const options = { host, port, path, method, agent, headers: { ...headers, ...type } };
      request(options, resolve).on("error", reject).end(text);
    });
  }
}

const EVENTS = "text/event-stream";

interface Now {
  readonly memoryMib: number;
  readonly connections: number;
  readonly keys: number;
}

/** Polls the portal as an admin, and its Redis, several times a second. */
class Figures {
  readonly latencies: number[] = [];
  failures = 0;
  mostMemoryMib = 0;
  mostConnections = 0;
  readonly #site: Site;
  readonly #server: RedisServer;
  readonly #admin: Headers;
  #running = false;
  #watching: Promise<void> = Promise.resolve();

  constructor(site: Site, server: RedisServer, admin: Headers) {
    this.#site = site;
    this.#server = server;
    this.#admin = admin;
  }

  start(): void {
    this.#running = true;
    this.#watching = this.#watch();
  }

  async stop(): Promise<void> {
    this.#running = false;
    await this.#watching;
  }

  async now(): Promise<Now> {
    const { text } = await this.#site.ask("GET", "/metrics");
    const bytes = /^process_resident_memory_bytes (\d+)/m.exec(text)?.[1];
    return {
      memoryMib: Math.round(Number(bytes) / 1_048_576),
      connections: (await this.#server.clients()).length,
      keys: Number(await this.#server.command("DBSIZE")),
    };
  }

  /** The figures after the connections of the flood are closed, or after 45 s. */
  async settled({ connections }: Now): Promise<Now> {
    const until = performance.now() + 45_000;
    for (;;) {
      const now = await this.now();
      if (now.connections <= connections || performance.now() > until) return now;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  async #watch(): Promise<void> {
    for (let i = 0; this.#running; i++) {
      const sent = performance.now();
      const status = await this.#site
        .status("GET", "/api/session", { headers: this.#admin })
        .catch(() => 0);
      this.latencies.push(performance.now() - sent);
      if (status !== 200) this.failures += 1;
      if (i % 20 === 0) {
        const { memoryMib, connections } = await this.now();
        this.mostMemoryMib = Math.max(this.mostMemoryMib, memoryMib);
        this.mostConnections = Math.max(this.mostConnections, connections);
      }
      await new Promise((resolve) => setTimeout(resolve, 25));
    }
  }
}

/** Runs the work `count` times, IN_FLIGHT at a time. */
async function inParallel(count: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
}

function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = Math.min(sorted.length - 1, Math.floor((sorted.length * percent) / 100));
  return Math.round((sorted[at] ?? 0) * 10) / 10;
}
