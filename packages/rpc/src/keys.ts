/**
 * Every key of the calls, in both wires. In each class, the documented keys are above the line, and the keys
 * that Ropeway adds are below it. On Cluster all keys of a namespace must share a slot: write the tag into the
 * namespace itself (`ns: "{prod}"`); the layout stays as documented.
 */
import { InvalidNameError } from "@ropeway/core";
import { checkPrefix, hashTag } from "@ropeway/core/internal";

/** The set of all namespaces. Type: set. */
export const NAMESPACES = "/api/ns";

/** The service and node of a works key. */
export interface WorkerName {
  readonly service: string;
  readonly node: string;
}

/** The keys that both wires have. */
export interface CallKeys {
  /** The list that callers push to. Type: list. */
  request(service: string, method: string): string;
  /** The list of one call's response. Type: list, 120 s. */
  response(method: string, id: string): string;
  /** The list of one call's progress. Type: list, 120 s. */
  progress(method: string, id: string): string;
  /** Shows that a worker is alive. Type: string with TTL. */
  works(service: string, node: string): string;
  /** A SCAN pattern for all works keys, for finding workers of other programs. */
  worksPattern(): string;
  /** The service and node in a works key. */
  readWorks(key: string): WorkerName | undefined;
  /** Member: node, score: when its works key expires. Type: sorted set with TTL. */
  worksIndex(service: string): string;
  /** Member: request list, score: when its calls of Ropeway clients are outdated. Type: sorted set. */
  requestIndex(): string;
  /** Whether a key is a request list that other programs keep without an expiry. */
  isRequest(key: string): boolean;
  /** All responses for one client process. Type: list with TTL. */
  reply(client: string): string;
  /** Credit, input and cancellation for one worker process. Type: list with TTL. */
  control(worker: string): string;
  /** Whether a key is such a list. */
  isControl(key: string): boolean;
}

/** The keys of the registry. */
export interface RegistryKeys {
  /** Names of services. Type: set. */
  services(): string;
  /** Method -> JSON {doc, args, return, schema, kind}. Type: hash. */
  description(service: string): string;
}

/** The keys that map sessions to nodes. */
export interface SessionKeys {
  /** A live member of a session group. Type: string with TTL. */
  group(group: string, node: string): string;
  /** A SCAN pattern for the members of a group. */
  groupPattern(group: string): string;
  /** Member: node, score: when its group key expires. Type: sorted set with TTL. */
  groupIndex(group: string): string;
  /** `{group}:{node}` of one session. Type: string with TTL. */
  sessionMap(group: string, client: string): string;
  /** The fencing token of one session's mapping. Type: string with TTL. */
  sessionEpoch(group: string, client: string): string;
  /** The largest fencing token of a group. Type: string. */
  groupEpoch(group: string): string;
  /** Calls of the sessions of one node. Type: list with TTL. */
  sessionRequest(member: string, service: string): string;
}

/** Score: end of the lease, member: worker id. Type: sorted set. */
export function leases(request: string): string {
  return `${request}:leases`;
}

/** Calls that one worker has taken and not finished. Type: list. */
export function inFlight(request: string, worker: string): string {
  return `${request}:inflight:${worker}`;
}

/** How often a call was put back: SHA-1 of the call -> number. Type: hash. */
export function attempts(request: string): string {
  return `${request}:attempts`;
}

/** Messages that cannot be run: JSON {time, reason, raw}, newest first. Type: list, 1000 long. */
export function dead(request: string): string {
  return `${request}:dead`;
}

/** The `jsonrpc` wire: /api/{ns}/... */
export class JsonRpcKeys implements CallKeys, RegistryKeys, SessionKeys {
  readonly #home: string;

  constructor(ns: string) {
    checkPrefix(ns, "ns");
    this.#home = `/api/${ns}`;
  }

  services(): string {
    return `${this.#home}/services`;
  }

  description(service: string): string {
    return `${this.#home}/desc/${checkName(service)}`;
  }

  request(service: string): string {
    return `${this.#home}/request/${checkName(service)}`;
  }

  response(_method: string, id: string): string {
    return `${this.#home}/response/${id}`;
  }

  progress(_method: string, id: string): string {
    return `${this.#home}/process/${id}`;
  }

  works(service: string, node: string): string {
    return `${this.#home}/works/${checkName(service)}:${checkName(node)}`;
  }

  worksPattern(): string {
    return `${escapeGlob(`${this.#home}/works/`)}*`;
  }

  readWorks(key: string): WorkerName | undefined {
    const [service, node, ...more] = key.slice(`${this.#home}/works/`.length).split(":");
    return more.length > 0 || !service || !node ? undefined : { service, node };
  }

  group(group: string, node: string): string {
    return `${this.#home}/groups/${checkName(group)}:${checkName(node)}`;
  }

  groupPattern(group: string): string {
    return `${escapeGlob(`${this.#home}/groups/${checkName(group)}:`)}*`;
  }

  sessionMap(group: string, client: string): string {
    return `${this.#home}/sess_map/${checkName(group)}:${client}`;
  }

  sessionRequest(member: string, service: string): string {
    return `${this.#home}/sess_req/${member}/${checkName(service)}`;
  }

  // ---- added by Ropeway

  sessionEpoch(group: string, client: string): string {
    return `${this.#home}/sess_epoch/${checkName(group)}:${client}`;
  }

  groupEpoch(group: string): string {
    return `${this.#home}/sess_epoch/${checkName(group)}`;
  }

  worksIndex(service: string): string {
    return `${this.#home}/index/works/${checkName(service)}`;
  }

  groupIndex(group: string): string {
    return `${this.#home}/index/groups/${checkName(group)}`;
  }

  requestIndex(): string {
    return `${this.#home}/index/requests`;
  }

  isRequest(key: string): boolean {
    return key.startsWith(`${this.#home}/request/`);
  }

  reply(client: string): string {
    return `${this.#home}/reply/${client}`;
  }

  control(worker: string): string {
    return `${this.#home}/ctl/${worker}`;
  }

  isControl(key: string): boolean {
    return key.startsWith(this.control(""));
  }
}

/** The `kw` wire: {prefix}:{func}:... */
export class KwKeys implements CallKeys, RegistryKeys {
  readonly #prefix: string;

  constructor(prefix: string) {
    checkPrefix(prefix, "prefix");
    this.#prefix = prefix;
  }

  request(_service: string, method: string): string {
    return `${this.#prefix}:${method}:calls`;
  }

  response(method: string, id: string): string {
    return `${this.#prefix}:${method}:result:${id}`;
  }

  /** A server's heartbeat; `kind` is the service's name. */
  works(kind: string, node: string): string {
    return `${this.#prefix}:${checkName(kind)}:${checkName(node)}:alive`;
  }

  worksPattern(): string {
    return `${escapeGlob(this.#prefix)}:*:*:alive`;
  }

  readWorks(key: string): WorkerName | undefined {
    const [service, node, ...more] = key
      .slice(this.#prefix.length + 1, -":alive".length)
      .split(":");
    return more.length > 0 || !service || !node ? undefined : { service, node };
  }

  // ---- added by Ropeway (`updates` was proposed upstream and never released)

  services(): string {
    return `${this.#prefix}:index:services`;
  }

  description(service: string): string {
    return `${this.#prefix}:index:desc:${checkName(service)}`;
  }

  progress(method: string, id: string): string {
    return `${this.#prefix}:${method}:updates:${id}`;
  }

  worksIndex(kind: string): string {
    return `${this.#prefix}:index:works:${kind}`;
  }

  requestIndex(): string {
    return `${this.#prefix}:index:requests`;
  }

  /** The documented programs let every list of calls expire. */
  isRequest(): boolean {
    return false;
  }

  reply(client: string): string {
    return `${this.#prefix}:reply:${client}`;
  }

  control(worker: string): string {
    return `${this.#prefix}:ctl:${worker}`;
  }

  isControl(key: string): boolean {
    return key.startsWith(this.control("")) && key !== this.request("", "ctl");
  }
}

/** Whether all keys of a namespace or prefix live in one Cluster slot. */
export function isTagged(home: string): boolean {
  return hashTag(home) !== undefined;
}

const NAME_RULE = 'a name of 1 to 200 characters without ":", "/" and white space';

/** Names are placed between ":" and "/" in keys, so they cannot contain these. Throws InvalidNameError. */
export function checkName(name: string, what: string = "the name"): string {
  if (!isName(name)) throw new InvalidNameError(what, name, NAME_RULE);
  return name;
}

/** Whether a name can be a part of a key. */
export function isName(name: string): boolean {
  return typeof name === "string" && name.length <= 200 && /^[^:/\s]+$/.test(name);
}

const SESSION_CHARS = 1_000;

/** A session may have any name of limited length, because it is the last part of its keys. Throws InvalidNameError. */
export function checkSession(client: string): void {
  if (typeof client === "string" && client !== "" && client.length <= SESSION_CHARS) return;
  throw new InvalidNameError("the session", client, `a string of 1 to ${SESSION_CHARS} characters`);
}

function escapeGlob(literal: string): string {
  return literal.replace(/[*?[\]\\^]/g, "\\$&");
}
