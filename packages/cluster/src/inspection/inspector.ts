/**
 * Inspects the cluster for a portal. Every portal runs one; in each round the lock elects which of them
 * inspects (round-lock.ts). A round:
 *
 *   1. nodes   lease alive, report stale -> health checks; if they fail: an alert, nothing is moved
 *              lease gone -> health checks; if they fail, or the node does not come back in time: offline
 *   2. tasks   of an offline node, once their owner key is gone with the lease:
 *                immortal, or not begun yet -> placed on another node
 *                running and not immortal   -> BROKEN, with the reason
 *                STOP, FINISH, BROKEN       -> left alone
 *   3. tasks   that wait for a node -> placed, if there is room by now
 *   4. BROKEN tasks -> an alert each, once
 *
 * The brake: if most nodes vanish within one lease, or the store was unreachable a moment ago, it is more likely
 * that this portal is cut off than that all nodes are down. Then the inspector moves nothing for a while
 * and raises an alert.
 */

import { type EventMap, RopewayError, silentLogger } from "@ropeway/core";
import { BackgroundRole, Loop, type Opening, reasonOf } from "@ropeway/core/internal";
import { NodeIdTakenError } from "../errors.ts";
import { isPart, keys } from "../keys.ts";
import { completeNode, idOfNode, isOnline, nodeOf } from "../nodes/node-record.ts";
import type { Placement } from "../nodes/placement.ts";
import { Registration } from "../nodes/registration.ts";
import { type InspectorOptions, resolveInspectorOptions } from "../options.ts";
import { absent, putRecord, rangeAll } from "../record.ts";
import { CLOSE_WITHIN_MS } from "../store/limits.ts";
import type { Entry, Store } from "../store/store.ts";
import { seedRdbVersions } from "../tasks/rdb-versions.ts";
import type { Alerts } from "./alerts.ts";
import { NodeWatch } from "./node-watch.ts";
import { answers } from "./probe.ts";
import { RecordSweep } from "./record-sweep.ts";
import { RoundLock } from "./round-lock.ts";
import { TaskInspection } from "./task-inspection.ts";

/** The events of an inspector. */
export interface InspectorEvents extends EventMap {
  /** It inspected, and its round counted. */
  inspected: [atMs: number];
  /** A node was found to be down. */
  offline: [nodeId: string];
}

/** What an inspector works with. */
export interface InspectorPlan {
  readonly store: Store;
  readonly placement: Placement;
  readonly alerts: Alerts;
}

/** How soon it tries again after it has revoked its old lease. */
const COME_BACK_MS = 100;

/** Inspects until closed. */
export class Inspector extends BackgroundRole<InspectorEvents> {
  readonly #plan: InspectorPlan;
  readonly #options: Required<InspectorOptions>;
  readonly #logger: NonNullable<InspectorOptions["logger"]>;
  readonly #watch: NodeWatch;
  readonly #sweep: RecordSweep;
  readonly #loop: Loop;
  #registration: Registration | undefined;
  #last: { readonly modRevision: number; readonly at: number } | undefined;
  #woken = false;
  /** The code of the last failure, while inspections fail. */
  #failing: string | undefined;
  /** The lease of a former registration that was revoked. */
  #revoked: string | undefined;
  #forgotTo: string | undefined;
  #placedTo: string | undefined;
  #releasedTo: string | undefined;
  #braked = false;

  /** @internal Made by Cluster. */
  constructor(plan: InspectorPlan, options: InspectorOptions) {
    const resolved = resolveInspectorOptions(options);
    const logger = resolved.logger ?? silentLogger;
    super("the inspector", logger);
    this.#plan = plan;
    this.#options = resolved;
    this.#logger = logger;
    this.#watch = new NodeWatch(plan.store, logger, () => {
      this.#woken = true;
      this.#loop.wake();
    });
    this.#sweep = new RecordSweep(plan.store);
    this.#loop = new Loop({
      tick: (signal) => this.#tick(signal),
      onError: (error) => {
        this.#watch.noteTrouble();
        this.#noteFailure(error);
      },
      backoff: { baseMs: 250, maxMs: resolved.everyMs },
      closeWithinMs: CLOSE_WITHIN_MS,
    });
  }

  /** Whether re-placement is suspended. */
  get braked(): boolean {
    return this.#braked;
  }

  protected async open({ defer }: Opening): Promise<void> {
    const { id, address, version, leaseMs, inspect } = this.#options;
    await this.#register({ id, address, version, leaseMs });
    defer(() => this.#registration?.close());
    await seedRdbVersions(this.#plan.store);
    if (!inspect) return;
    this.#watch.start();
    defer(() => this.#watch.close());
    this.#loop.start();
    defer(() => this.#loop.close());
  }

  async #register(who: { id: string; address: string; version: string; leaseMs: number }) {
    const registration = await Registration.open({
      ...who,
      store: this.#plan.store,
      type: "portal",
      types: [],
      reportMs: Math.max(500, Math.floor(who.leaseMs / 3)),
      maxTasks: 0,
      logger: this.#logger,
      tasks: () => 0,
    });
    this.#registration = registration;
    // The store responded after close() had stopped waiting.
    if (this.closing.aborted) await registration.close();
  }

  /** Registers again. Returns false if its old record prevented that; the record has been removed. */
  async #comeBack(): Promise<boolean> {
    const { id, address, version, leaseMs } = this.#options;
    const former = this.#registration?.session.lease;
    await this.#registration?.close();
    try {
      await this.#register({ id, address, version, leaseMs });
      this.#revoked = undefined;
      return true;
    } catch (error) {
      // Our own earlier record: the store was unreachable when its lease was to be revoked.
      if (!(error instanceof NodeIdTakenError) || former === this.#revoked) throw error;
      if (former !== undefined) await this.#plan.store.revoke(former);
      this.#revoked = former;
      return false;
    }
  }

  /** One line when inspections begin to fail, or fail for another reason, however long it lasts. */
  #noteFailure(error: unknown): void {
    const code = error instanceof RopewayError ? error.code : reasonOf(error);
    const level = code === this.#failing ? "debug" : "warn";
    this.#logger[level]({ err: reasonOf(error) }, "an inspection failed");
    this.#failing = code;
  }

  async #tick(signal: AbortSignal): Promise<number> {
    const nextMs = await this.#turn(signal);
    if (this.#failing !== undefined) this.#logger.info({}, "inspections go on");
    this.#failing = undefined;
    return nextMs;
  }

  async #turn(signal: AbortSignal): Promise<number> {
    const { everyMs, id } = this.#options;
    // A portal whose lease was lost registers again before it inspects.
    if (this.#registration?.session.alive !== true) {
      this.#watch.noteTrouble();
      if (!(await this.#comeBack())) return COME_BACK_MS;
    }
    const seen = await this.#plan.store.get(keys.lastInspection);
    const revision = seen?.modRevision ?? 0;
    const now = performance.now();
    if (this.#last === undefined || this.#last.modRevision !== revision) {
      const first = this.#last === undefined && seen === undefined;
      this.#last = { modRevision: revision, at: now };
      // Another portal has inspected meanwhile: this round is done, unless a node has gone.
      if (!first && !this.#woken) return everyMs;
    }
    const waited = now - this.#last.at;
    if (!this.#woken && waited < everyMs * 0.9 && seen !== undefined) return everyMs - waited;
    this.#woken = false;
    const lock = await RoundLock.take(this.#plan.store, id, { seen, logger: this.#logger });
    if (lock === undefined) return Math.min(everyMs, 500);
    await this.#round(lock, AbortSignal.any([signal, lock.signal]));
    return everyMs;
  }

  async #round(lock: RoundLock, signal: AbortSignal): Promise<void> {
    let finished = false;
    try {
      await this.#inspect(lock, signal);
      const at = Date.now();
      finished = true;
      if (await lock.finish(at)) this.emit("inspected", at);
      const entry = await this.#plan.store.get(keys.lastInspection);
      this.#last = { modRevision: entry?.modRevision ?? 0, at: performance.now() };
    } finally {
      if (!finished) await lock.abandon();
    }
  }

  async #inspect(lock: RoundLock, signal: AbortSignal): Promise<void> {
    const { store, alerts, placement } = this.#plan;
    const nodes = await rangeAll(store, keys.nodes("redissyncer"));
    const byId = new Map<string, Entry>();
    for (const entry of nodes.entries) {
      const nodeId = idOfNode(entry);
      if (nodeId !== undefined) byId.set(nodeId, entry);
    }
    const assigned = await this.#assignments();
    const suspects = new Set([...assigned.keys(), ...byId.keys()]);
    const offline: string[] = [];
    await Promise.all(
      [...suspects].map(async (nodeId) => {
        const down = await this.#isDown(nodeId, byId.get(nodeId), { lock, signal });
        if (down) offline.push(nodeId);
      }),
    );
    const inspection = new TaskInspection({ store, alerts, placement, guard: lock.guard });
    const moving = offline.filter((nodeId) => (assigned.get(nodeId)?.length ?? 0) > 0);
    this.#releasedTo = await inspection.releaseOwners(this.#releasedTo);
    if (moving.length === 0) await this.#releaseBrake();
    if (moving.length === 0 || !(await this.#mustBrake())) {
      for (const nodeId of moving) await inspection.leave(nodeId, assigned.get(nodeId) ?? []);
      this.#placedTo = await inspection.placeWaiting(this.#placedTo);
    }
    await inspection.drain();
    await inspection.alertBroken(suspects);
    await alerts.trim();
    await this.#sweep.step();
    this.#forgotTo = await inspection.forgetRequests(this.#forgotTo);
  }

  /** The tasks of each node. */
  async #assignments(): Promise<Map<string, string[]>> {
    const { entries } = await rangeAll(this.#plan.store, keys.tasksOfNodes);
    const byNode = new Map<string, string[]>();
    for (const { key } of entries) {
      const [nodeId = "", taskId = ""] = key.slice(keys.tasksOfNodes.length).split("/");
      if (!isPart(nodeId) || !isPart(taskId)) continue; // not a valid name of a node or task
      const taskIds = byNode.get(nodeId);
      if (taskIds === undefined) byNode.set(nodeId, [taskId]);
      else taskIds.push(taskId);
    }
    return byNode;
  }

  async #isDown(
    nodeId: string,
    entry: Entry | undefined,
    { lock, signal }: { lock: RoundLock; signal: AbortSignal },
  ): Promise<boolean> {
    const { alerts } = this.#plan;
    const { staleMs, leaseMs } = this.#options;
    const seen = this.#watch.get(nodeId);
    const silentMs = seen === undefined ? 0 : performance.now() - seen.changedAt;
    const url = (nodeOf(entry) ?? seen?.record)?.heartbeaturl ?? "";
    const probe = () => answers({ ...this.#options, url, nodeId, signal });
    const unreachable = `node-unreachable:${nodeId}`;
    if (isOnline(entry)) {
      if (silentMs < staleMs || (await probe())) {
        await alerts.resolve(unreachable);
        await alerts.resolve(`node-offline:${nodeId}`);
      } else {
        const text = `Node ${nodeId} holds its lease, but does not report and does not answer health checks.`;
        await alerts.raise({ kind: "node-unreachable", cause: unreachable, text, subject: nodeId });
      }
      return false;
    }
    if (entry !== undefined) return true; // its record says offline
    // A healthy node that lost its lease registers again within one lease.
    if (silentMs < leaseMs && (await probe())) return false;
    await this.#declareOffline(nodeId, lock);
    return true;
  }

  async #declareOffline(nodeId: string, lock: RoundLock): Promise<void> {
    const { store, alerts } = this.#plan;
    const key = keys.node("redissyncer", nodeId);
    const last = this.#watch.get(nodeId)?.record;
    const reason = `its lease ended and ${this.#options.probes} health checks failed`;
    const record = completeNode({ ...last, nodeid: nodeId, online: false, reason });
    const declared = await store.txn({
      if: [absent(key), lock.guard],
      do: [putRecord(key, record)],
    });
    if (!declared.succeeded) return; // it is back, or the round is over
    this.emit("offline", nodeId);
    await alerts.resolve(`node-unreachable:${nodeId}`);
    const cause = `node-offline:${nodeId}`;
    await alerts.raise({
      kind: "node-offline",
      cause,
      text: `Node ${nodeId} is offline: ${reason}.`,
      subject: nodeId,
    });
  }

  /** Whether missing reports of nodes are not enough to act on. */
  async #mustBrake(): Promise<boolean> {
    const { leaseMs, brakeMs } = this.#options;
    const { alerts } = this.#plan;
    const gone = this.#watch.goneWithin(brakeMs);
    const together = this.#watch.goneWithin(leaseMs * 2);
    const all = this.#watch.onlineCount + gone;
    const isMost = (count: number) => count >= 2 && count > all / 2;
    const seen = isMost(gone) && (this.#braked || isMost(together));
    // A portal that started after the nodes vanished has not seen it: it follows the other portals.
    const masses = seen || (this.#watch.ageMs < brakeMs && (await alerts.isOpen("brake")));
    const unsettled = this.#watch.calmMs < leaseMs;
    if (!masses) await this.#releaseBrake();
    this.#braked = masses;
    if (seen) {
      const text = `${gone} of ${all} nodes went offline at about the same time. Their tasks are not moved for ${brakeMs} ms.`;
      await alerts.raise({ kind: "brake", cause: "brake", text, subject: "" });
    }
    return masses || unsettled;
  }

  async #releaseBrake(): Promise<void> {
    this.#braked = false;
    await this.#plan.alerts.resolve("brake");
  }
}
