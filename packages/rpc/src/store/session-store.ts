/** The commands of sessions: mapping a session to a node, and moving its calls when the node has died. */
import type { Redis } from "@ropeway/core";
import { isName, type SessionKeys } from "../keys.ts";
import { explain } from "./refusal.ts";
import { move, stick } from "./scripts.ts";

/** A node that could own a session. */
export interface Candidate {
  readonly node: string;
  /** Whether it serves the called service. */
  readonly serves: boolean;
}

/** A call of a session, split at its epoch, which only the script knows. */
export interface SessionMessage {
  readonly service: string;
  readonly before: string;
  readonly after: string;
  /** The lifetime of its list. */
  readonly ttlMs: number;
}

/** The node that a session is mapped to. */
export interface Mapping {
  readonly node: string;
  /** The fencing token; undefined if the node was not among the candidates and nothing was done. */
  readonly epoch: string | undefined;
}

/** The group and name of a session. */
export interface SessionName {
  readonly group: string;
  readonly client: string;
}

/** Every command about sessions. */
export class SessionStore {
  readonly #redis: Redis;
  readonly #keys: SessionKeys;

  constructor(redis: Redis, keys: SessionKeys) {
    this.#redis = redis;
    this.#keys = keys;
  }

  /** Maps the session if it has no live node, and pushes the message to it; undefined if no node is alive. */
  async stick(
    name: SessionName,
    candidates: readonly Candidate[],
    call: { readonly message: SessionMessage | undefined; readonly ttlMs: number },
  ): Promise<Mapping | undefined> {
    const { group, client } = name;
    const { message, ttlMs } = call;
    const map = this.#keys.sessionMap(group, client);
    const keys = [map, this.#keys.sessionEpoch(group, client), this.#keys.groupEpoch(group)];
    const head = [Math.ceil(ttlMs), message?.before ?? "", message?.after ?? ""];
    head.push(Math.ceil(message?.ttlMs ?? 0));
    const args: string[] = [];
    for (const { node, serves } of candidates) {
      keys.push(this.#keys.group(group, node));
      keys.push(message === undefined ? map : this.list(group, node, message.service));
      args.push(`${group}:${node}`, serves ? "1" : "0");
    }
    let foreign = "";
    for (;;) {
      const reply = this.#redis.run(stick, keys, [...head, foreign, ...args]);
      const [member, epoch] = await reply.catch((error) => Promise.reject(explain(error, map)));
      if (member === undefined) return undefined;
      const node = member.slice(group.length + 1);
      if (member === `${group}:${node}` && isName(node)) return { node, epoch };
      foreign = member; // a value of another program that names no node
    }
  }

  /** Moves one waiting message to another list. Returns false if it was already popped. */
  async move(
    lists: readonly [from: string, to: string],
    texts: readonly [old: string, now: string],
    ttlMs: number,
  ): Promise<boolean> {
    const [moved] = await this.#redis.run(move, lists, [Math.ceil(ttlMs), ...texts]);
    return moved === 1;
  }

  /** The list from which a node of a group pops session calls. */
  list(group: string, node: string, service: string): string {
    return this.#keys.sessionRequest(`${group}:${node}`, service);
  }
}
