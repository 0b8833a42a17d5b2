/**
 * Calls that stick to one node of a group. The map from session to node lives in Redis, so all callers
 * of a session agree on the node, whichever process they are in.
 *
 *   call --> stick.lua: mapped and alive? --yes--> pushed into that node's list
 *                          |no
 *                        the first live candidate (least loaded, then random) becomes the node,
 *                        the epoch grows, the call is pushed there
 *
 * A call that waits in the list of a node that has died is moved to the new node's list, if it is still
 * there; if it is not, the dead node had begun it, and it is left to its deadline.
 */
import { ConnectionLostError, isReply } from "@ropeway/core";
import { sleep } from "@ropeway/core/internal";
import { type CallEngine, cancelText } from "../client/call-engine.ts";
import { PendingCall } from "../client/pending-call.ts";
import type { Route } from "../client/route.ts";
import {
  CancelledError,
  DeadlineExceededError,
  RpcError,
  UnavailableError,
  WrongKeyTypeError,
} from "../errors.ts";
import type { JsonRpcKeys } from "../keys.ts";
import type { CallOptions } from "../options.ts";
import { move, stick } from "../store/scripts.ts";
import { WheelEntry } from "../timer-wheel.ts";

/** A call on its way through a session. */
interface Sticky {
  readonly pending: PendingCall;
  readonly before: string;
  readonly after: string;
  member: string;
}

interface Placed {
  /** `group:node`. */
  readonly member: string;
  readonly epoch: string;
}

const CHECK_EVERY_MS = 500;
const NO_NODE_PAUSE_MS = 100;
const NODES_FOR_MS = 1_000;
const EPOCH_MARK = '"e":';

/** See the top of the file; made by client.session(). */
export class Session {
  readonly group: string;
  readonly client: string;
  readonly #desk: CallEngine;
  readonly #keys: JsonRpcKeys;
  readonly #waiting = new Set<Sticky>();
  readonly #check: SessionCheck;
  #nodes: readonly string[] = [];
  #nodesReadAt = Number.NEGATIVE_INFINITY;

  constructor(desk: CallEngine, keys: JsonRpcKeys, name: { group: string; client: string }) {
    this.#desk = desk;
    this.#keys = keys;
    this.group = name.group;
    this.client = name.client;
    keys.group(name.group, "node"); // refuses a name that cannot stand in a key
    this.#check = new SessionCheck(() => this.#onCheck());
  }

  /** Calls a method on the session's node. */
  async call(target: string, params: unknown = [], options: CallOptions = {}): Promise<unknown> {
    const timeoutMs = options.timeoutMs ?? this.#desk.options.timeoutMs;
    const until = performance.now() + timeoutMs;
    const route = this.#desk.route(target);
    for (;;) {
      try {
        return await this.#callOnce(route, params, {
          ...options,
          timeoutMs: until - performance.now(),
        });
      } catch (error) {
        // The node had lost the session before it began the call.
        const lost = error instanceof RpcError && error.code === "SESSION_LOST";
        if (!lost || performance.now() >= until) throw error;
        await sleep(NO_NODE_PAUSE_MS, options.signal);
      }
    }
  }

  /** The node that the session is mapped to now, mapping it if it is not. */
  async node(): Promise<string> {
    const { member } = await this.#place(
      undefined,
      performance.now() + this.#desk.options.timeoutMs,
    );
    return member.slice(this.group.length + 1);
  }

  async #callOnce(
    route: Route,
    params: unknown,
    options: CallOptions & { readonly timeoutMs: number },
  ): Promise<unknown> {
    const { signal, timeoutMs } = options;
    if (signal?.aborted) throw new CancelledError(`the call of ${route.name}`, signal.reason);
    const desk = this.#desk;
    const shared = desk.usesReplyList(route.service);
    const id = desk.nextId(shared);
    let sticky: Sticky | undefined;
    const onAbort = () => void this.#cancel(sticky, signal?.reason);
    try {
      return await new Promise((resolve, reject) => {
        const { onProgress } = options;
        const pending = new PendingCall(desk, route, id);
        pending.settles(resolve, reject);
        pending.timeoutMs = timeoutMs;
        pending.extras = { onProgress };
        const track = onProgress !== undefined;
        const text = desk.prepare(pending, shared, {
          params,
          track,
          session: { client: this.client, epoch: 0 },
        });
        sticky = { pending, ...splitAtEpoch(text), member: "" };
        this.#waiting.add(sticky);
        if (this.#check.after === undefined) desk.wheel.set(this.#check, CHECK_EVERY_MS);
        signal?.addEventListener("abort", onAbort, { once: true });
        this.#send(sticky, performance.now() + timeoutMs).catch((error) => {
          // After a loss it may have been pushed: its answer, or its deadline, decides.
          if (!(error instanceof ConnectionLostError)) pending.fail(error);
        });
      });
    } finally {
      signal?.removeEventListener("abort", onAbort);
      if (sticky !== undefined) this.#waiting.delete(sticky);
    }
  }

  async #send(sticky: Sticky, until: number): Promise<void> {
    const { member, epoch } = await this.#place(sticky, until);
    this.#sentTo(sticky, { member, epoch });
  }

  #sentTo(sticky: Sticky, place: Placed): void {
    sticky.member = place.member;
    sticky.pending.extras.text = sticky.before + place.epoch + sticky.after;
    sticky.pending.extras.list = this.#list(place.member, sticky.pending.route);
  }

  /** Maps the session and pushes the call, waiting for a live node if there is none. */
  async #place(sticky: Sticky | undefined, until: number): Promise<Placed> {
    for (;;) {
      const placed = await this.#tryPlace(sticky);
      if (placed !== undefined) return placed;
      if (this.#desk.options.whenDown === "fail") throw new UnavailableError(this.group);
      if (performance.now() > until) throw new DeadlineExceededError("finding a node");
      await sleep(NO_NODE_PAUSE_MS);
    }
  }

  /** The same without waiting; undefined if no node lives. */
  async #tryPlace(sticky: Sticky | undefined): Promise<Placed | undefined> {
    let nodes = await this.#candidates();
    for (;;) {
      const [member, epoch] = await this.#stick(nodes, sticky);
      if (member === undefined) {
        this.#nodesReadAt = Number.NEGATIVE_INFINITY;
        return undefined;
      }
      if (epoch !== undefined) return { member, epoch };
      // The script must see the key of the node it is mapped to, dead or alive.
      nodes = [...nodes, member.slice(member.indexOf(":") + 1)];
    }
  }

  async #stick(nodes: readonly string[], sticky: Sticky | undefined): Promise<readonly string[]> {
    const { redis, options } = this.#desk;
    const members = nodes.map((node) => `${this.group}:${node}`);
    const map = this.#keys.sessionMap(this.group, this.client);
    const keys = [map, this.#keys.sessionEpoch(this.group, this.client)];
    for (const [i, node] of nodes.entries()) {
      const member = members[i] as string;
      keys.push(this.#keys.group(this.group, node));
      keys.push(sticky === undefined ? map : this.#list(member, sticky.pending.route));
    }
    const call = sticky === undefined ? ["", ""] : [sticky.before, sticky.after];
    try {
      return await redis.run(stick, keys, [Math.ceil(options.sessionTtlMs), ...call, ...members]);
    } catch (error) {
      throw isReply(error, "WRONGTYPE") ? new WrongKeyTypeError(map, error) : error;
    }
  }

  /** The group's live nodes, least loaded first, equals in random order. */
  async #candidates(): Promise<readonly string[]> {
    if (performance.now() - this.#nodesReadAt < NODES_FOR_MS) return this.#nodes;
    const members = await this.#desk.directory.groupNodes(this.#keys, this.group);
    this.#nodes = members
      .map(({ node, running }) => ({ node, running, chance: Math.random() }))
      .sort((a, b) => a.running - b.running || a.chance - b.chance)
      .map(({ node }) => node);
    this.#nodesReadAt = performance.now();
    return this.#nodes;
  }

  /** As long as calls wait, their node is looked at now and then. */
  #onCheck(): void {
    if (this.#waiting.size === 0) return;
    this.#moveStranded()
      .catch((error) => this.#desk.redis.logger.debug({ err: error }, "cannot check a session yet"))
      .finally(() => {
        if (this.#waiting.size > 0) this.#desk.wheel.set(this.#check, CHECK_EVERY_MS);
      });
  }

  /** Moves calls that wait for a node which is not the session's any more. */
  async #moveStranded(): Promise<void> {
    const place = await this.#tryPlace(undefined);
    if (place === undefined) return;
    const { member, epoch } = place;
    for (const sticky of this.#waiting) {
      if (sticky.member === "" || sticky.member === member) continue;
      const { route, extras } = sticky.pending;
      const lists = [this.#list(sticky.member, route), this.#list(member, route)];
      const [moved] = await this.#desk.redis.run(move, lists, [
        extras.text as string,
        sticky.before + epoch + sticky.after,
      ]);
      if (moved === 1) this.#sentTo(sticky, place);
      else this.#waiting.delete(sticky); // begun by the node that is gone
    }
  }

  async #cancel(sticky: Sticky | undefined, reason: unknown): Promise<void> {
    if (sticky === undefined) return;
    const { pending } = sticky;
    try {
      await this.#desk.cancel(
        pending,
        new CancelledError(`the call of ${pending.route.name}`, reason),
      );
    } catch (error) {
      this.#desk.redis.logger.debug({ err: error, text: cancelText(pending.id) }, "cannot cancel");
    }
  }

  #list(member: string, route: Route): string {
    return this.#keys.sessionRequest(member, route.service);
  }
}

class SessionCheck extends WheelEntry {
  readonly #check: () => void;

  constructor(check: () => void) {
    super();
    this.#check = check;
  }

  override due(): void {
    this.#check();
  }
}

/** Cuts the text of a call around the epoch, which only the script knows. */
function splitAtEpoch(text: string): { before: string; after: string } {
  // The session stands before the params, and its client is a JSON string: the first mark is ours.
  const at = text.indexOf(EPOCH_MARK, text.indexOf('"ss":{"c":')) + EPOCH_MARK.length;
  return { before: text.slice(0, at), after: text.slice(at + 1) };
}
