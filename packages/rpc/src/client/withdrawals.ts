/**
 * Removes calls that are no longer wanted from their lists. A cancelled call is withdrawn, or its worker
 * is notified. A call that timed out is withdrawn only if its service has no live worker: a live worker drops
 * outdated calls itself, and no other process would remove them.
 */
import { cancelText } from "./control.ts";
import type { Exchange } from "./exchange.ts";
import type { Outgoing } from "./placement.ts";
import type { Route } from "./route.ts";

const PER_ROUND = 100;
/** Calls that timed out are among the oldest ones. */
const SEARCHED = 1_000;

/** The withdrawals of one client. */
export class Withdrawals {
  readonly #exchange: Exchange;
  /** Ids of calls that timed out, by the list that they may still be in. */
  readonly #expired = new Map<string, { readonly service: string; readonly ids: string[] }>();
  #working: Promise<void> | undefined;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  /** Removes a message from its list, or tells the workers to cancel it. */
  async cancel(message: Outgoing): Promise<void> {
    const { list, text, route, id } = message;
    const removed = await this.#exchange.store.withdraw(list, text);
    if (!removed) await this.#exchange.tellWorkers(route.service, cancelText(id));
  }

  /** Call it when a call has timed out. */
  expired(route: Route, id: string): void {
    let entry = this.#expired.get(route.list);
    if (entry === undefined) {
      entry = { service: route.service, ids: [] };
      this.#expired.set(route.list, entry);
    }
    entry.ids.push(id);
    this.#working ??= this.#work();
  }

  async #work(): Promise<void> {
    const { redis, directory, store } = this.#exchange;
    try {
      for (const [list, { service, ids }] of this.#expired) {
        this.#expired.delete(list);
        if ((await directory.workers(service, 1_000)).length > 0) continue;
        for (let at = 0; at < ids.length; at += PER_ROUND) {
          const some = ids.slice(at, at + PER_ROUND);
          await Promise.all(some.map((id) => store.withdrawById(list, id, SEARCHED)));
        }
      }
    } catch (error) {
      redis.logger.debug({ err: error }, "cannot withdraw calls that timed out");
      this.#expired.clear(); // the list expires eventually
    } finally {
      this.#working = undefined;
      if (this.#expired.size > 0) this.#working = this.#work();
    }
  }
}
