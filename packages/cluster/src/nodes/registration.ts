/**
 * A node's place in the cluster. The record is created only if there is none, or only one that says
 * offline, and lives on the node's lease:
 *
 *   absent, or offline ---- register ----> online ---- report, report ... ----> lease ended: absent
 *                                            '-- registered by another process: NodeIdTakenError
 */

import { availableParallelism } from "node:os";
import type { Logger } from "@ropeway/core";
import { LeaseLostError } from "@ropeway/core";
import { Loop, reasonOf, within } from "@ropeway/core/internal";
import { NodeIdTakenError } from "../errors.ts";
import { keys, type NodeType } from "../keys.ts";
import { checkId } from "../names.ts";
import { absent, createdAt, optimistically, putRecord, unchanged } from "../record.ts";
import { Session } from "../session.ts";
import { CLOSE_WITHIN_MS } from "../store/limits.ts";
import type { Store } from "../store/store.ts";
import { addressParts, isOnline, machineLoad, type NodeRecord, nodeOf } from "./node-record.ts";

/** The node that registers. */
export interface RegistrationPlan {
  readonly store: Store;
  readonly type: NodeType;
  readonly id: string;
  readonly address: string;
  readonly version: string;
  readonly types: readonly string[];
  readonly leaseMs: number;
  readonly reportMs: number;
  readonly maxTasks: number;
  readonly logger: Logger;
  /** The number of tasks running, for the next report. */
  tasks(): number;
}

/** A node that is registered until it closes or its lease is lost. */
export class Registration {
  readonly session: Session;
  readonly #plan: RegistrationPlan;
  readonly #key: string;
  readonly #createRevision: number;
  readonly #reporter: Loop;

  private constructor(plan: RegistrationPlan, session: Session, createRevision: number) {
    this.#plan = plan;
    this.session = session;
    this.#key = keys.node(plan.type, plan.id);
    this.#createRevision = createRevision;
    this.#reporter = new Loop({
      tick: async () => {
        await this.report();
        return plan.reportMs;
      },
      onError: (error) => plan.logger.debug({ err: reasonOf(error) }, "the node could not report"),
      backoff: { baseMs: 200, maxMs: plan.reportMs },
      closeWithinMs: CLOSE_WITHIN_MS,
    });
  }

  /** Registers, or throws NodeIdTakenError naming where the id is in use. */
  static async open(plan: RegistrationPlan): Promise<Registration> {
    checkId("the node's id", plan.id);
    const key = keys.node(plan.type, plan.id);
    const what = `node ${plan.id}`;
    const session = await Session.open(plan.store, {
      ttlMs: plan.leaseMs,
      what,
      logger: plan.logger,
    });
    try {
      await optimistically(plan.store, what, async () => {
        const entry = await plan.store.get(key);
        if (entry?.lease !== session.lease && isOnline(entry)) {
          const holder = nodeOf(entry);
          throw new NodeIdTakenError(plan.id, `${holder?.nodeaddr}:${holder?.nodeport}`);
        }
        // An offline record is removed in the same transaction, so that the create revision is ours.
        return entry === undefined
          ? {
              if: [absent(key)],
              do: [putRecord(key, recordFor(plan), session.lease)],
              result: undefined,
            }
          : {
              if: [unchanged(key, entry)],
              do: [putRecord(key, recordFor(plan), session.lease)],
              result: undefined,
            };
      });
      const created = await plan.store.get(key);
      if (created?.lease !== session.lease) throw new LeaseLostError(what);
      const registration = new Registration(plan, session, created.createRevision);
      registration.#reporter.start();
      return registration;
    } catch (error) {
      await session.close();
      throw error;
    }
  }

  /** Writes the present load. Throws LeaseLostError, and abandons the session, if the record is not ours. */
  async report(): Promise<void> {
    const { store } = this.#plan;
    if (!this.session.alive) return;
    const writing = store.txn({
      if: [createdAt(this.#key, this.#createRevision)],
      do: [putRecord(this.#key, recordFor(this.#plan), this.session.lease)],
    });
    const { signal } = this.session;
    const { succeeded } = await within(writing, { signal, what: "a report" });
    if (succeeded) return;
    // The record was deleted: another process can take the id now, so this one must register again.
    this.session.abandon();
    throw new LeaseLostError(`node ${this.#plan.id}`);
  }

  /** Leaves the cluster: the record goes with the lease. */
  async close(): Promise<void> {
    await Promise.all([this.#reporter.close(), this.session.close()]);
  }
}

function recordFor(plan: RegistrationPlan): NodeRecord {
  const { type, id, address, version, types, maxTasks } = plan;
  return {
    nodetype: type,
    nodeid: id,
    ...addressParts(address),
    online: true,
    lastreporttime: Date.now(),
    version,
    load: { ...machineLoad(availableParallelism()), tasks: plan.tasks(), maxTasks },
    types,
    reason: "",
  };
}
