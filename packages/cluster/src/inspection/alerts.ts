/**
 * Alerts: one record per cause, however many portals notice it and however often. The portal that creates
 * the record notifies the log and the webhook; the others find the record.
 *
 *   raise ---> open ---- ack ----> acknowledged
 *                '------- resolve -----'----> resolved: the same cause may be raised again
 *
 * `sentAt` is set when every sink has taken the alert. Until then each inspection sends it again, so an
 * alert survives the death of the portal that raised it; sinks must accept the same alert twice. A
 * failure to send it is logged once, and so is the later success.
 *
 * Inspections do not wait for a sink: one that hangs, such as a queue whose server is unreachable, delays no
 * inspection.
 */
import { createHash } from "node:crypto";
import { type Clock, type Logger, localClock, type Page } from "@ropeway/core";
import { reasonOf } from "@ropeway/core/internal";
import { UnknownAlertError } from "../errors.ts";
import { keys } from "../keys.ts";
import {
  optimistically,
  putRecord,
  rangeAll,
  recordOf,
  textOf,
  timeOf,
  unchanged,
} from "../record.ts";
import { MAX_RANGE } from "../store/limits.ts";
import type { Entry, Store } from "../store/store.ts";
import { decodeCursor, encodeCursor } from "../tasks/cursor.ts";

/** What an alert is about. */
export type AlertKind = "task-broken" | "node-offline" | "node-unreachable" | "brake";

/** An alert. */
export interface Alert {
  readonly id: string;
  readonly kind: AlertKind;
  /** Identifies the cause: alerts with the same cause are one alert. */
  readonly cause: string;
  readonly text: string;
  /** The task or node, or "". */
  readonly subject: string;
  /** The group of the task, or "". */
  readonly group: string;
  readonly raisedAt: number;
  /** How often the cause came up again after it was resolved. */
  readonly count: number;
  readonly acknowledgedAt: number | null;
  readonly acknowledgedBy: string | null;
  readonly resolvedAt: number | null;
  /** When every sink had taken it; null until then. */
  readonly sentAt: number | null;
}

/** The content of a new alert. */
export type AlertDraft = Pick<Alert, "kind" | "cause" | "text" | "subject"> & {
  readonly group?: string;
};

/** Delivers a new alert, for example to a webhook. It may get the next alert before it has taken this one. */
export type AlertSink = (alert: Alert) => Promise<unknown>;

/** Resolved alerts beyond this number are removed, oldest first. */
const KEPT = 1_000;

/** The alerts of a cluster. */
export class Alerts {
  readonly #store: Store;
  readonly #sinks: readonly AlertSink[];
  readonly #logger: Logger;
  readonly #clock: Clock;
  /** Alerts that a sink has refused so far, by id and count. */
  readonly #unsent = new Set<string>();
  /** Alerts that are being sent to the sinks now, by id and count. */
  readonly #sending = new Set<string>();

  constructor(plan: {
    readonly store: Store;
    readonly sinks: readonly AlertSink[];
    readonly logger: Logger;
    readonly clock?: Clock;
  }) {
    this.#store = plan.store;
    this.#sinks = plan.sinks;
    this.#logger = plan.logger;
    this.#clock = plan.clock ?? localClock;
  }

  /** Raises an alert unless it is open already. Returns whether it was new. Does not wait for the sinks. */
  async raise(draft: AlertDraft): Promise<boolean> {
    const id = idOf(draft.cause);
    const key = keys.alert(id);
    const entry = await this.#store.get(key);
    const known = alertOf(entry);
    if (known !== undefined && known.resolvedAt === null) return false;
    const alert: Alert = {
      group: "",
      ...draft,
      id,
      raisedAt: this.#now(),
      count: (known?.count ?? 0) + 1,
      acknowledgedAt: null,
      acknowledgedBy: null,
      resolvedAt: null,
      sentAt: this.#sinks.length === 0 ? this.#now() : null,
    };
    const raised = await this.#store.txn({
      if: [unchanged(key, entry)],
      do: [putRecord(key, alert)],
    });
    if (!raised.succeeded) return false;
    this.#logger.error({ alert: id, kind: alert.kind, subject: alert.subject }, alert.text);
    void this.send(alert);
    return true;
  }

  /** Sends an alert to the sinks, unless all have taken it or it is being sent. Never rejects. */
  async send(alert: Alert): Promise<void> {
    const name = nameOf(alert);
    if (alert.sentAt !== null || this.#sinks.length === 0 || this.#sending.has(name)) return;
    this.#sending.add(name);
    try {
      await this.#give(alert);
    } catch (error) {
      this.#logger.debug({ err: reasonOf(error), alert: alert.id }, "an alert is sent again");
    } finally {
      this.#sending.delete(name);
    }
  }

  async #give(alert: Alert): Promise<void> {
    const key = keys.alert(alert.id);
    const sending = await Promise.allSettled(this.#sinks.map(async (sink) => sink(alert)));
    const failed = sending.filter((one) => one.status === "rejected");
    const name = nameOf(alert);
    if (failed.length > 0) {
      const errors = failed.map(({ reason }) => reasonOf(reason)).join("; ");
      const say = { err: errors, alert: alert.id };
      if (!this.#unsent.has(name)) this.#logger.error(say, "an alert could not be sent yet");
      this.#unsent.add(name);
      return;
    }
    if (this.#unsent.delete(name))
      this.#logger.info({ alert: alert.id }, "an alert was sent at last");
    await optimistically(this.#store, `alert ${alert.id}`, async () => {
      const entry = await this.#store.get(key);
      const now = alertOf(entry);
      if (now === undefined || now.count !== alert.count) return { do: [], result: undefined };
      const sent = { ...now, sentAt: this.#now() };
      return { if: [unchanged(key, entry)], do: [putRecord(key, sent)], result: undefined };
    });
  }

  /** Every alert that is not resolved, by its cause. */
  async open(): Promise<Map<string, Alert>> {
    const { entries } = await rangeAll(this.#store, keys.alerts);
    const alerts = entries
      .map(alertOf)
      .filter((alert) => alert !== undefined)
      .filter(({ resolvedAt }) => resolvedAt === null);
    const names = new Set(alerts.map(nameOf));
    for (const name of this.#unsent) if (!names.has(name)) this.#unsent.delete(name);
    return new Map(alerts.map((alert) => [alert.cause, alert]));
  }

  /** Whether the cause has an alert that is not resolved. */
  async isOpen(cause: string): Promise<boolean> {
    const alert = alertOf(await this.#store.get(keys.alert(idOf(cause))));
    return alert !== undefined && alert.resolvedAt === null;
  }

  /** Marks the alert of a cause as resolved. */
  resolve(cause: string): Promise<void> {
    return this.#changeOpen(cause, { resolvedAt: this.#now() });
  }

  /** Moves the open alert of a cause to another group, because its task has moved. */
  regroup(cause: string, group: string): Promise<void> {
    return this.#changeOpen(cause, { group });
  }

  async #changeOpen(cause: string, change: Partial<Alert>): Promise<void> {
    const key = keys.alert(idOf(cause));
    const entry = await this.#store.get(key);
    const alert = alertOf(entry);
    if (alert === undefined || alert.resolvedAt !== null) return;
    const changed = putRecord(key, { ...alert, ...change });
    await this.#store.txn({ if: [unchanged(key, entry)], do: [changed] });
  }

  /**
   * Marks the alert as acknowledged by an operator, who may see these groups only; undefined is all. Each attempt
   * asks, because its task may have moved to another group since the last one.
   */
  acknowledge(id: string, by: string, groups?: readonly string[]): Promise<Alert> {
    const key = keys.alert(id);
    return optimistically(this.#store, `alert ${id}`, async () => {
      const entry = /^[0-9a-f]{24}$/.test(id) ? await this.#store.get(key) : undefined;
      const alert = alertOf(entry);
      const hidden = alert && groups?.includes(alert.group) === false;
      if (alert === undefined || hidden) throw new UnknownAlertError(id);
      if (alert.acknowledgedAt !== null) return { do: [], result: alert };
      const result = { ...alert, acknowledgedAt: this.#now(), acknowledgedBy: by };
      return { if: [unchanged(key, entry)], do: [putRecord(key, result)], result };
    });
  }

  async get(id: string): Promise<Alert> {
    const key = keys.alert(id);
    const alert = alertOf(/^[0-9a-f]{24}$/.test(id) ? await this.#store.get(key) : undefined);
    if (alert === undefined) throw new UnknownAlertError(id);
    return alert;
  }

  /** A page of alerts; all that are not resolved, or all. Only the last page has room left. */
  async list(options: AlertFilter = {}): Promise<Page<Alert>> {
    const { limit = 50, all = false, groups } = options;
    const items: Alert[] = [];
    const seen = decodeCursor(options.cursor);
    for (let after = seen === undefined ? undefined : keys.alert(seen); ; ) {
      const { entries, more } = await this.#store.range(keys.alerts, { limit: MAX_RANGE, after });
      for (const [n, entry] of entries.entries()) {
        after = entry.key;
        const alert = alertOf(entry);
        const visible = alert && (groups === undefined || groups.includes(alert.group));
        if (!visible || (!all && alert.resolvedAt !== null)) continue;
        items.push(alert);
        const last = n === entries.length - 1 && !more;
        if (items.length === limit)
          return last ? { items } : { items, cursor: encodeCursor(alert.id) };
      }
      if (!more || entries.length === 0) return { items };
    }
  }

  /** Removes old alerts that are resolved. */
  async trim(): Promise<void> {
    const { entries } = await rangeAll(this.#store, keys.alerts);
    if (entries.length <= KEPT) return;
    const old = entries
      .filter((entry) => alertOf(entry)?.resolvedAt !== null)
      .sort((a, b) => a.modRevision - b.modRevision)
      .slice(0, Math.min(100, entries.length - KEPT));
    if (old.length > 0) {
      await this.#store.txn({ do: old.map(({ key }) => ({ op: "delete", key })) });
    }
  }

  #now(): number {
    return Math.floor(this.#clock.now());
  }
}

/** Which alerts. */
export interface AlertFilter {
  readonly all?: boolean | undefined;
  readonly groups?: readonly string[] | undefined;
  readonly cursor?: string | undefined;
  readonly limit?: number | undefined;
}

/**
 * The alert in an entry; undefined if the entry holds something else, or the alert of another path. Fields that
 * another program left out get their defaults.
 */
function alertOf(entry: Entry | undefined): Alert | undefined {
  const found = recordOf<Partial<Record<keyof Alert, unknown>>>(entry);
  if (entry === undefined || found === undefined || typeof found.cause !== "string")
    return undefined;
  const { cause } = found;
  const id = idOf(cause);
  if (entry.key !== keys.alert(id)) return undefined;
  const time = (value: unknown) => timeOf(value) ?? null;
  const raisedAt = timeOf(found.raisedAt) ?? 0;
  return {
    id,
    kind: textOf(found.kind) as AlertKind,
    cause,
    text: textOf(found.text),
    subject: textOf(found.subject),
    group: textOf(found.group),
    raisedAt,
    count: Number.isSafeInteger(found.count) ? (found.count as number) : 1,
    acknowledgedAt: time(found.acknowledgedAt),
    acknowledgedBy: typeof found.acknowledgedBy === "string" ? found.acknowledgedBy : null,
    resolvedAt: time(found.resolvedAt),
    sentAt: found.sentAt === undefined ? raisedAt : time(found.sentAt),
  };
}

/** Distinguishes an alert that was raised again from the one before. */
function nameOf({ id, count }: Pick<Alert, "id" | "count">): string {
  return `${id}-${count}`;
}

function idOf(cause: string): string {
  return createHash("sha256").update(cause).digest("hex").slice(0, 24);
}
