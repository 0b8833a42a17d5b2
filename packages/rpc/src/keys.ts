/**
 * Every key of the calls, in both wires. What the seeds document stands above the line in each class,
 * what we add below it. On Cluster all keys of a namespace must share a slot: write the tag into the
 * namespace itself (`ns: "{prod}"`), the layout stays as documented.
 */
import { checkPrefix, hashTag } from "@ropeway/core/internal";
import { InvalidNameError } from "./errors.ts";

/** The set of all namespaces. Type: set. */
export const NAMESPACES = "/api/ns";

/** The keys that the engine needs, whatever the wire. */
export interface CallKeys {
  /** Where callers push. Type: list. */
  request(service: string, method: string): string;
  /** Where the answer of one call is pushed. Type: list, 120 s. */
  response(method: string, id: string): string;
  /** Where the progress of one call is pushed. Type: list, 120 s. */
  progress(method: string, id: string): string;
  /** A worker's sign of life. Type: string with TTL. */
  works(service: string, node: string): string;
  /** A SCAN pattern for the works keys of a service, for finding those of other programs. */
  worksPattern(service: string): string;
  /** Member: node, score: when its works key expires. Type: sorted set with TTL. */
  worksIndex(service: string): string;
  /** All answers for one client process. Type: list with TTL. */
  reply(client: string): string;
  /** Credit, input and cancellation for one worker process. Type: list with TTL. */
  control(worker: string): string;
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

/** Messages that cannot be answered: JSON {time, reason, raw}, newest first. Type: list, 1000 long. */
export function dead(request: string): string {
  return `${request}:dead`;
}

/** The `jsonrpc` wire: /api/{ns}/... */
export class JsonRpcKeys implements CallKeys {
  readonly #home: string;

  constructor(ns: string) {
    checkPrefix(ns, "ns");
    this.#home = `/api/${ns}`;
  }

  /** Names of services. Type: set. */
  services(): string {
    return `${this.#home}/services`;
  }

  /** Method -> JSON {doc, args, return, schema, kind}. Type: hash. */
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

  worksPattern(service: string): string {
    return `${escapeGlob(`${this.#home}/works/${service}:`)}*`;
  }

  /** A live member of a session group. Type: string with TTL. */
  group(group: string, node: string): string {
    return `${this.#home}/groups/${checkName(group)}:${checkName(node)}`;
  }

  /** A SCAN pattern for the members of a group. */
  groupPattern(group: string): string {
    return `${escapeGlob(`${this.#home}/groups/${checkName(group)}:`)}*`;
  }

  /** `{group}:{node}` of one session. Type: string with TTL. */
  sessionMap(group: string, client: string): string {
    return `${this.#home}/sess_map/${checkName(group)}:${client}`;
  }

  /** Calls of the sessions of one node. Type: list. */
  sessionRequest(member: string, service: string): string {
    return `${this.#home}/sess_req/${member}/${checkName(service)}`;
  }

  // ---- ours

  /** How often a session was mapped, for fencing. Type: string with TTL. */
  sessionEpoch(group: string, client: string): string {
    return `${this.#home}/sess_epoch/${checkName(group)}:${client}`;
  }

  worksIndex(service: string): string {
    return `${this.#home}/index/works/${checkName(service)}`;
  }

  /** Member: node, score: when its group key expires. Type: sorted set with TTL. */
  groupIndex(group: string): string {
    return `${this.#home}/index/groups/${checkName(group)}`;
  }

  reply(client: string): string {
    return `${this.#home}/reply/${client}`;
  }

  control(worker: string): string {
    return `${this.#home}/ctl/${worker}`;
  }
}

/** The `kw` wire: {prefix}:{func}:... */
export class KwKeys implements CallKeys {
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

  /** Without a kind: those of all kinds. */
  worksPattern(kind: string): string {
    const which = kind === "" ? "*" : escapeGlob(kind);
    return `${escapeGlob(this.#prefix)}:${which}:*:alive`;
  }

  // ---- ours (`updates` was proposed upstream and never released)

  progress(method: string, id: string): string {
    return `${this.#prefix}:${method}:updates:${id}`;
  }

  worksIndex(kind: string): string {
    return `${this.#prefix}:index:works:${kind}`;
  }

  reply(client: string): string {
    return `${this.#prefix}:reply:${client}`;
  }

  control(worker: string): string {
    return `${this.#prefix}:ctl:${worker}`;
  }
}

/** Whether all keys of a namespace or prefix live in one Cluster slot. */
export function isTagged(home: string): boolean {
  return hashTag(home) !== undefined;
}

/** Names stand between ":" and "/" in keys and would run into each other with those inside. */
export function checkName(name: string): string {
  if (name === "" || /[:/\s]/.test(name)) throw new InvalidNameError(name);
  return name;
}

function escapeGlob(literal: string): string {
  return literal.replace(/[*?[\]\\^]/g, "\\$&");
}
