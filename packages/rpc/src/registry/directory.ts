/**
 * Who serves what, as a client knows it: the works keys, read through an index that our workers keep,
 * plus a bounded SCAN now and then for workers written to the documented keys alone.
 *
 * Answers go to a shared reply list only if every live worker of the service says that it can
 * (`caps: ["rt"]`); before anything is known, and for everyone else, the documented keys are used.
 */
import { isReply, type Redis } from "@ropeway/core";
import { WrongKeyTypeError } from "../errors.ts";
import type { CallKeys, JsonRpcKeys } from "../keys.ts";
import type { MethodStats } from "../telemetry/histogram.ts";

/** A live worker of a service. */
export interface WorkerInfo {
  readonly service: string;
  readonly node: string;
  /** What it can: "rt" answers into reply lists, "st" streams. Empty for programs of others. */
  readonly caps: readonly string[];
  /** Its control list, if it has one. */
  readonly ctl?: string | undefined;
  readonly version?: string | undefined;
  readonly host?: string | undefined;
  readonly pid?: number | undefined;
  /** ms since 1970. */
  readonly since?: number | undefined;
  readonly concurrency?: number | undefined;
  /** Calls it ran at its last heartbeat. */
  readonly running?: number | undefined;
  readonly methods?: Readonly<Record<string, MethodStats>> | undefined;
}

interface Known {
  workers: readonly WorkerInfo[];
  foreign: readonly string[];
  readAt: number;
  scannedAt: number;
  reading: Promise<readonly WorkerInfo[]> | undefined;
  /** Until when a worker that answered under a documented key counts as alive. */
  plainUntil: number;
}

const REFRESH_MS = 2_000;
const SCAN_EVERY_MS = 30_000;
const PLAIN_FOR_MS = 60_000;
/** A larger database is not scanned: what a worker of others answers is then found a little later. */
const SCAN_AT_MOST = 200_000;
const SCAN_STEP = "1000";

/** See the top of the file. */
export class Directory {
  readonly #redis: Redis;
  readonly #keys: CallKeys;
  readonly #known = new Map<string, Known>();

  constructor(redis: Redis, keys: CallKeys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** Whether every live worker of the service answers into reply lists; refreshed in the background. */
  allUseReplyLists(service: string): boolean {
    const known = this.#of(service);
    const now = performance.now();
    if (now - known.readAt > REFRESH_MS && known.reading === undefined) {
      this.workers(service).catch((error) =>
        this.#redis.logger.debug({ err: error, service }, "cannot list the workers yet"),
      );
    }
    if (now < known.plainUntil || known.workers.length === 0) return false;
    return known.workers.every((worker) => worker.caps.includes("rt"));
  }

  /** Notes that an answer of this service came under a documented key. */
  notePlainWorker(service: string): void {
    this.#of(service).plainUntil = performance.now() + PLAIN_FOR_MS;
  }

  /** The live workers, at most `maxAgeMs` old. */
  workers(service: string, maxAgeMs: number = 0): Promise<readonly WorkerInfo[]> {
    const known = this.#of(service);
    if (performance.now() - known.readAt < maxAgeMs) return Promise.resolve(known.workers);
    known.reading ??= this.#read(service, known).finally(() => {
      known.reading = undefined;
    });
    return known.reading;
  }

  /** The live nodes of a session group, and how much each had to do at its last heartbeat. */
  async groupNodes(
    keys: JsonRpcKeys,
    group: string,
  ): Promise<readonly { readonly node: string; readonly running: number }[]> {
    const index = keys.groupIndex(group);
    const known = this.#of(index);
    const nodes = await this.#ask<string[]>(index, ["ZRANGE", index, "0", "-1"]);
    const found = new Set(nodes.map((node) => keys.group(group, node)));
    if (performance.now() - known.scannedAt > SCAN_EVERY_MS || found.size === 0) {
      known.foreign = await this.#scan(keys.groupPattern(group));
      known.scannedAt = performance.now();
    }
    for (const key of known.foreign) found.add(key);
    const members = await this.#describe("", [...found]);
    return members.map(({ node, running = 0 }) => ({ node, running }));
  }

  async #read(service: string, known: Known): Promise<readonly WorkerInfo[]> {
    const keys = new Set<string>();
    const index = service === "" ? undefined : this.#keys.worksIndex(service);
    if (index !== undefined) {
      const nodes = await this.#ask<string[]>(index, ["ZRANGE", index, "0", "-1"]);
      for (const node of nodes) keys.add(this.#keys.works(service, node));
    }
    if (performance.now() - known.scannedAt > SCAN_EVERY_MS) {
      known.foreign = await this.#scan(this.#keys.worksPattern(service));
      known.scannedAt = performance.now();
    }
    for (const key of known.foreign) keys.add(key);
    known.workers = await this.#describe(service, [...keys]);
    known.readAt = performance.now();
    return known.workers;
  }

  async #describe(service: string, keys: readonly string[]): Promise<readonly WorkerInfo[]> {
    const [first] = keys;
    if (first === undefined) return [];
    const values = await this.#ask<(string | null)[]>(first, ["MGET", ...keys]);
    return keys.flatMap((key, i) => {
      const value = values[i];
      return value === null || value === undefined ? [] : [readWorker(service, key, value)];
    });
  }

  async #scan(pattern: string): Promise<string[]> {
    if (Number(await this.#ask(pattern, ["DBSIZE"])) > SCAN_AT_MOST) return [];
    const found: string[] = [];
    let cursor = "0";
    do {
      const command = ["SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_STEP];
      const [next, keys] = await this.#ask<[string, string[]]>(pattern, command);
      found.push(...keys);
      cursor = String(next);
    } while (cursor !== "0");
    return found;
  }

  async #ask<T>(key: string, command: readonly string[]): Promise<T> {
    try {
      return (await this.#redis.send(command, { key, repeatable: true })) as T;
    } catch (error) {
      throw isReply(error, "WRONGTYPE") ? new WrongKeyTypeError(key, error) : error;
    }
  }

  #of(service: string): Known {
    let known = this.#known.get(service);
    if (known === undefined) {
      const never = Number.NEGATIVE_INFINITY;
      known = {
        workers: [],
        foreign: [],
        readAt: never,
        scannedAt: never,
        reading: undefined,
        plainUntil: never,
      };
      this.#known.set(service, known);
    }
    return known;
  }
}

/** Anything may stand in another program's works key: only a JSON object of ours says something. */
function readWorker(service: string, key: string, value: string): WorkerInfo {
  const node =
    key
      .replace(/:alive$/, "")
      .split(":")
      .at(-1) ?? "";
  let told: Partial<WorkerInfo> = {};
  try {
    const parsed: unknown = JSON.parse(value);
    if (typeof parsed === "object" && parsed !== null) told = parsed as Partial<WorkerInfo>;
  } catch {
    // not JSON: the worker of another program, of which only the name is known
  }
  const caps = Array.isArray(told.caps) ? told.caps.map(String) : [];
  return { ...told, service, node, caps };
}
