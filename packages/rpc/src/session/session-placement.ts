/** Sends a session's messages to its node, and to the next node when that one has died. */
import type { Exchange } from "../client/exchange.ts";
import type { Outgoing, Placement } from "../client/placement.ts";
import { CancelledError, DeadlineExceededError, UnavailableError } from "../errors.ts";
import { checkName, checkSession, type SessionKeys } from "../keys.ts";
import type { GroupNode } from "../registry/directory.ts";
import { isPassing } from "../store/refusal.ts";
import {
  type Candidate,
  type Mapping,
  type SessionMessage,
  type SessionName,
  SessionStore,
} from "../store/session-store.ts";
import { WheelEntry } from "../timer-wheel.ts";
import type { SessionMark } from "../wire/dialect.ts";

interface Placed {
  readonly message: SessionMessage;
  /** The node in whose list the message is; undefined before it was pushed. */
  node: string | undefined;
}

const CHECK_EVERY_MS = 500;
const NO_NODE_PAUSE_MS = 100;
const NODES_FOR_MS = 1_000;
/** How much longer than its messages a list lives. */
const LIST_MARGIN_MS = 60_000;
const EPOCH_MARK = '"e":';

/** Places the messages of one session. */
export class SessionPlacement implements Placement {
  readonly mark: SessionMark;
  readonly #exchange: Exchange;
  readonly #store: SessionStore;
  readonly #keys: SessionKeys;
  readonly #name: SessionName;
  readonly #waiting = new Map<Outgoing, Placed>();
  readonly #check: SessionCheck;
  #nodes: readonly GroupNode[] = [];
  #nodesReadAt = Number.NEGATIVE_INFINITY;

  constructor(exchange: Exchange, keys: SessionKeys, name: SessionName) {
    checkName(name.group, "the name of the group");
    checkSession(name.client);
    this.#exchange = exchange;
    this.#store = new SessionStore(exchange.redis, keys);
    this.#keys = keys;
    this.#name = name;
    this.mark = { client: name.client, epoch: 0 };
    this.#check = new SessionCheck(() => this.#onCheck());
  }

  get failsWhenDown(): boolean {
    return this.#exchange.options.whenDown === "fail";
  }

  /** The session's node. Maps the session if it has none; undefined if no node is alive. */
  async map(): Promise<Mapping | undefined> {
    return this.#stick(undefined);
  }

  async place(outgoing: Outgoing): Promise<void> {
    const ttlMs = outgoing.timeoutMs + LIST_MARGIN_MS;
    const message = { service: outgoing.route.service, ...splitAtEpoch(outgoing.text), ttlMs };
    const placed: Placed = { message, node: undefined };
    this.#waiting.set(outgoing, placed);
    if (this.#check.after === undefined) this.#exchange.wheel.set(this.#check, CHECK_EVERY_MS);
    try {
      while (outgoing.wanted) {
        const mapping = await this.#stick(message).catch(whenRefused);
        if (mapping !== undefined && mapping !== REFUSED) {
          this.#sentTo(outgoing, placed, mapping);
          // The message was cancelled while it was being pushed.
          if (!outgoing.wanted) await this.#exchange.withdrawals.cancel(outgoing);
          return;
        }
        if (mapping !== REFUSED && outgoing.whenDown === "fail") {
          throw new UnavailableError(this.#name.group);
        }
        if (performance.now() > outgoing.until) throw new DeadlineExceededError("finding a node");
        await new Promise((resolve) => setTimeout(resolve, NO_NODE_PAUSE_MS));
      }
      throw new CancelledError(`the call of ${outgoing.route.name}`);
    } catch (error) {
      this.#waiting.delete(outgoing);
      throw error;
    }
  }

  release(outgoing: Outgoing): void {
    this.#waiting.delete(outgoing);
  }

  #sentTo(outgoing: Outgoing, placed: Placed, { node, epoch }: Mapping): void {
    const { before, after, service } = placed.message;
    placed.node = node;
    outgoing.text = before + epoch + after;
    outgoing.list = this.#store.list(this.#name.group, node, service);
  }

  /** Maps the session and pushes the message; undefined if no node is alive. */
  async #stick(
    message: SessionMessage | undefined,
    service: string | undefined = message?.service,
  ): Promise<Mapping | undefined> {
    this.#exchange.requireOpen();
    let candidates = await this.#candidates(service);
    const ttlMs = this.#exchange.options.sessionTtlMs;
    for (;;) {
      const mapping = await this.#store.stick(this.#name, candidates, { message, ttlMs });
      if (mapping === undefined) {
        this.#nodesReadAt = Number.NEGATIVE_INFINITY;
        return undefined;
      }
      if (mapping.epoch !== undefined) return mapping;
      // The script must have the key of the mapped node, dead or alive.
      candidates = [...candidates, { node: mapping.node, serves: true }];
    }
  }

  /** The group's live nodes, least loaded first, nodes of equal load in random order. */
  async #candidates(service: string | undefined): Promise<readonly Candidate[]> {
    if (performance.now() - this.#nodesReadAt >= NODES_FOR_MS) {
      const nodes = await this.#exchange.directory.groupNodes(this.#keys, this.#name.group);
      this.#nodes = nodes
        .map((node) => ({ node, chance: Math.random() }))
        .sort((a, b) => a.node.running - b.node.running || a.chance - b.chance)
        .map(({ node }) => node);
      this.#nodesReadAt = performance.now();
    }
    return this.#nodes.map((each) => ({
      node: each.node,
      serves: service === undefined || serves(each, service),
    }));
  }

  /** Whether a node is alive and serves the service, as of the last read. */
  #isServing(node: string, service: string): boolean {
    return this.#nodes.some((each) => each.node === node && serves(each, service));
  }

  /** While messages wait, their node is checked regularly. */
  #onCheck(): void {
    const now = performance.now();
    for (const outgoing of this.#waiting.keys()) {
      if (now > outgoing.until) this.#waiting.delete(outgoing);
    }
    if (this.#waiting.size === 0) return;
    const { redis, wheel } = this.#exchange;
    this.#moveStranded()
      .catch((error) => redis.logger.debug({ err: error }, "cannot check a session yet"))
      .finally(() => {
        if (this.#waiting.size > 0) wheel.set(this.#check, CHECK_EVERY_MS);
      });
  }

  /** Moves messages that wait for a node that no longer owns the session. */
  async #moveStranded(): Promise<void> {
    const owner = await this.#stick(undefined);
    if (owner === undefined) return;
    for (const [outgoing, placed] of this.#waiting) {
      const mapping = await this.#destination(placed, owner);
      if (mapping !== undefined) await this.#move(outgoing, placed, mapping);
    }
  }

  /**
   * The node that a waiting message has to move to; undefined if it stays. Nodes of a group may serve different
   * services, and then the session moves back and forth between them. A message stays at its node if that is alive
   * and the session's current node does not serve it.
   */
  async #destination(placed: Placed, owner: Mapping): Promise<Mapping | undefined> {
    const { node, message } = placed;
    const { service } = message;
    if (node === undefined) return undefined;
    if (this.#isServing(owner.node, service)) return node === owner.node ? undefined : owner;
    if (this.#isServing(node, service)) return undefined;
    const mapping = await this.#stick(undefined, service);
    return mapping?.node === node ? undefined : mapping;
  }

  async #move(outgoing: Outgoing, placed: Placed, mapping: Mapping): Promise<void> {
    const { before, after, service, ttlMs } = placed.message;
    const to = this.#store.list(this.#name.group, mapping.node, service);
    const texts = [outgoing.text, before + mapping.epoch + after] as const;
    if (await this.#store.move([outgoing.list, to], texts, ttlMs)) {
      this.#sentTo(outgoing, placed, mapping);
      if (!outgoing.wanted) await this.#exchange.withdrawals.cancel(outgoing);
    } else {
      this.#waiting.delete(outgoing); // the dead node had started it
    }
  }
}

/** The server refuses writes for the moment; nothing was written. */
const REFUSED = Symbol("refused");

function whenRefused(error: unknown): typeof REFUSED {
  if (isPassing(error)) return REFUSED; // not for a lack of memory, which is a typed error here
  throw error;
}

function serves({ services }: GroupNode, service: string): boolean {
  return services === undefined || services.includes(service);
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

/** Splits the text of a call at the epoch, which only the script knows. */
function splitAtEpoch(text: string): { before: string; after: string } {
  // The session comes before the params, and its client is a JSON string, so the first mark is the right one.
  const at = text.indexOf(EPOCH_MARK, text.indexOf('"ss":{"c":')) + EPOCH_MARK.length;
  return { before: text.slice(0, at), after: text.slice(at + 1) };
}
