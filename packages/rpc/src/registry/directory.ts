/**
 * The workers of each service, as a client knows them: the works keys, read through the index that Ropeway
 * workers keep. Workers that use only the documented keys are in no index. A call detects them
 * by the key of their response, and discovery by a SCAN, at most every half minute for the whole
 * namespace.
 *
 * Responses go to a shared reply list only if every live worker of the service supports it
 * (`caps: ["rt"]`). Before anything is known, and for all other services, the documented keys are used.
 */
import type { Redis } from "@ropeway/core";
import type { SessionKeys } from "../keys.ts";
import { Recent } from "../recent.ts";
import { RegistryStore } from "../store/registry-store.ts";
import type { MethodStats } from "../telemetry/histogram.ts";
import { type Dialect, readNumber, readString } from "../wire/dialect.ts";

/** A live worker of a service. */
export interface WorkerInfo {
  readonly service: string;
  readonly node: string;
  /** "rt" responds into reply lists, "st" supports streams. Empty for other programs. */
  readonly caps: readonly string[];
  /** Its control list, if it has one. */
  readonly ctl?: string | undefined;
  /** Its session group. */
  readonly group?: string | undefined;
  readonly version?: string | undefined;
  readonly host?: string | undefined;
  readonly pid?: number | undefined;
  /** When it started, in milliseconds since the epoch. */
  readonly since?: number | undefined;
  readonly concurrency?: number | undefined;
  /** The number of calls it was running at its last heartbeat. */
  readonly running?: number | undefined;
  readonly methods?: Readonly<Record<string, MethodStats>> | undefined;
}

/** A live node of a session group. */
export interface GroupNode {
  readonly node: string;
  /** The number of calls it was running at its last heartbeat. */
  readonly running: number;
  /** The services it serves; undefined if it does not report them. */
  readonly services: readonly string[] | undefined;
}

interface Known {
  workers: readonly WorkerInfo[];
  /** When the worker of each control list was last seen alive. */
  readonly seen: Map<string, number>;
  /** Whether there are workers, and all of them respond into reply lists. */
  allUseReplyLists: boolean;
  readAt: number;
  reading: Promise<readonly WorkerInfo[]> | undefined;
  /** Until when a worker that responded under a documented key counts as alive. */
  plainUntil: number;
}

const REFRESH_MS = 2_000;
const SCAN_EVERY_MS = 30_000;
const PLAIN_FOR_MS = 60_000;
const RECENT_MS = 60_000;
const SERVICES_AT_MOST = 1_000;
const NEVER = Number.NEGATIVE_INFINITY;

/** The live workers, as far as a client knows them. */
export class Directory {
  readonly #redis: Redis;
  readonly #store: RegistryStore;
  readonly #dialect: Dialect;
  readonly #known = new Recent<string, Known>(SERVICES_AT_MOST);
  readonly #scans = new Recent<
    string,
    { readonly keys: Promise<readonly string[]>; readonly at: number }
  >(100);

  constructor(redis: Redis, dialect: Dialect) {
    this.#redis = redis;
    this.#store = new RegistryStore(redis);
    this.#dialect = dialect;
  }

  /** Whether every live worker of the service responds into reply lists; refreshed in the background. */
  allUseReplyLists(service: string, now: number = performance.now()): boolean {
    const known = this.#of(service);
    if (now - known.readAt > REFRESH_MS && known.reading === undefined) {
      this.workers(service).catch((error) =>
        this.#redis.logger.debug({ err: error, service }, "cannot list the workers yet"),
      );
    }
    return known.allUseReplyLists && now >= known.plainUntil;
  }

  /** Records that a response of this service came under a documented key. */
  notePlainWorker(service: string): void {
    this.#of(service).plainUntil = performance.now() + PLAIN_FOR_MS;
  }

  /** The live Ropeway workers, at most `maxAgeMs` old. "" means all services (of the kw wire). */
  workers(service: string, maxAgeMs: number = 0): Promise<readonly WorkerInfo[]> {
    const known = this.#of(service);
    if (performance.now() - known.readAt < maxAgeMs) return Promise.resolve(known.workers);
    known.reading ??= this.#read(service, known).finally(() => {
      known.reading = undefined;
    });
    return known.reading;
  }

  /**
   * The control lists of the live workers, and of those that were alive within the last minute: after an outage
   * a worker reads its list before it is registered again.
   */
  async recentControlLists(service: string): Promise<readonly string[]> {
    await this.workers(service);
    return [...this.#of(service).seen.keys()];
  }

  /** The live workers of all programs. */
  async allWorkers(service: string): Promise<readonly WorkerInfo[]> {
    const [ours, found] = await Promise.all([this.workers(service), this.#foreign(service)]);
    const nodes = new Set(ours.map(({ node }) => node));
    return [...ours, ...found.filter(({ node }) => !nodes.has(node))];
  }

  /** Whether the service has a live worker, as far as the client knows. */
  async isServed(service: string): Promise<boolean> {
    if ((await this.workers(service, 500)).length > 0) return true;
    if (performance.now() < this.#of(service).plainUntil) return true;
    return (await this.#foreign(service)).length > 0;
  }

  /** The live nodes of a session group. */
  async groupNodes(keys: SessionKeys, group: string): Promise<readonly GroupNode[]> {
    const nodes = await this.#store.nodes(keys.groupIndex(group));
    const found = new Set(nodes.map((node) => keys.group(group, node)));
    if (found.size === 0) {
      for (const key of await this.#scan(keys.groupPattern(group))) found.add(key);
    }
    const values = await this.#store.values([...found]);
    return [...found].flatMap((key, i) => {
      const value = values[i];
      return value === null || value === undefined ? [] : [readNode(key, value)];
    });
  }

  /** Connections of callers and workers; undefined if the user has no permission to list them. */
  connections(): Promise<{ readonly callers: number; readonly workers: number } | undefined> {
    return this.#store.connections();
  }

  async #read(service: string, known: Known): Promise<readonly WorkerInfo[]> {
    const { keys, registry } = this.#dialect;
    const services = service === "" ? await this.#store.services(registry.services()) : [service];
    const names = await Promise.all(
      services.map(async (name) => {
        const nodes = await this.#store.nodes(keys.worksIndex(name));
        return nodes.map((node) => ({ service: name, node, key: keys.works(name, node) }));
      }),
    );
    const workers = await this.#describe(names.flat());
    known.workers = workers;
    known.allUseReplyLists = workers.length > 0 && workers.every(({ caps }) => caps.includes("rt"));
    known.readAt = performance.now();
    noteSeen(known);
    return known.workers;
  }

  async #foreign(service: string): Promise<readonly WorkerInfo[]> {
    const { keys } = this.#dialect;
    const names = (await this.#scan(keys.worksPattern())).flatMap((key) => {
      const name = keys.readWorks(key);
      const wanted = name !== undefined && (service === "" || name.service === service);
      return wanted ? [{ ...name, key }] : [];
    });
    return this.#describe(names);
  }

  async #describe(
    names: readonly { readonly service: string; readonly node: string; readonly key: string }[],
  ): Promise<readonly WorkerInfo[]> {
    const { keys } = this.#dialect;
    const values = await this.#store.values(names.map(({ key }) => key));
    return names.flatMap(({ service, node }, i) => {
      const value = values[i];
      if (value === null || value === undefined) return [];
      return [{ service, node, ...readWorker(value, keys.control("")) }];
    });
  }

  #scan(pattern: string): Promise<readonly string[]> {
    const last = this.#scans.get(pattern);
    if (last !== undefined && performance.now() - last.at < SCAN_EVERY_MS) return last.keys;
    const keys = this.#store.scan(pattern);
    this.#scans.note(pattern, { keys, at: performance.now() });
    keys.catch(() => this.#scans.forget(pattern));
    return keys;
  }

  #of(service: string): Known {
    return this.#known.obtain(service, () => ({
      workers: [],
      seen: new Map(),
      allUseReplyLists: false,
      readAt: NEVER,
      reading: undefined,
      plainUntil: NEVER,
    }));
  }
}

function noteSeen({ workers, seen, readAt }: Known): void {
  for (const { ctl } of workers) if (ctl !== undefined) seen.set(ctl, readAt);
  for (const [ctl, at] of seen) if (readAt - at > RECENT_MS) seen.delete(ctl);
}

/** Another program may write any value: only members of the right type count. */
function readWorker(value: string, controlLists: string): Omit<WorkerInfo, "service" | "node"> {
  const told = readObject(value);
  const ctl = readString(told.ctl);
  return {
    caps: Array.isArray(told.caps) ? told.caps.map(String) : [],
    ctl: ctl?.startsWith(controlLists) ? ctl : undefined,
    group: readString(told.group),
    version: readString(told.version),
    host: readString(told.host),
    pid: readNumber(told.pid),
    since: readNumber(told.since),
    concurrency: readNumber(told.concurrency),
    running: readNumber(told.running),
    methods: readMethods(told.methods),
  };
}

function readMethods(value: unknown): WorkerInfo["methods"] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const methods = Object.entries(value).map(([name, told]) => {
    const stats = (told ?? {}) as Record<string, unknown>;
    const number = (member: keyof MethodStats) => readNumber(stats[member]) ?? 0;
    return [
      name,
      {
        calls: number("calls"),
        errors: number("errors"),
        meanMs: number("meanMs"),
        p50Ms: number("p50Ms"),
        p99Ms: number("p99Ms"),
        perSecond: number("perSecond"),
      },
    ] as const;
  });
  return Object.fromEntries(methods);
}

function readNode(key: string, value: string): GroupNode {
  const { running, services } = readObject(value);
  return {
    node: key.slice(key.lastIndexOf(":") + 1),
    running: typeof running === "number" ? running : 0,
    services: Array.isArray(services) ? services.map(String) : undefined,
  };
}

/** Another program may store any value under its key: only a JSON object is used. */
function readObject(value: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(value);
    if (typeof parsed === "object" && parsed !== null) return parsed as Record<string, unknown>;
  } catch {
    // not JSON: only the name of the worker is known
  }
  return {};
}
