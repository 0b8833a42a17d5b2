/**
 * A cluster as a portal or a tool uses it: the parts that work on one store.
 *
 *   const cluster = new Cluster(store, { secrets });
 *   await cluster.tasks.create({ name: "copy", type: "sync", config: { from, to }, start: true });
 */

import { type Logger, silentLogger } from "@ropeway/core";
import { ClusterIds } from "./ids.ts";
import { type AlertSink, Alerts } from "./inspection/alerts.ts";
import { Inspector } from "./inspection/inspector.ts";
import { Nodes } from "./nodes/nodes.ts";
import { Placement } from "./nodes/placement.ts";
import type { InspectorOptions } from "./options.ts";
import type { Runner } from "./runner.ts";
import { scriptedRunner } from "./runners/scripted-runner.ts";
import { type SyncRunnerOptions, syncRunner } from "./runners/sync-runner.ts";
import { SecretBox } from "./secrets.ts";
import { requireStore } from "./store/require-store.ts";
import type { Store } from "./store/store.ts";
import { Tasks } from "./tasks/tasks.ts";

/** How a cluster is used. */
export interface ClusterOptions {
  /** Encrypts passwords of tasks. @default a box without a key, which refuses them */
  readonly secrets?: SecretBox;
  /** The task types. @default sync and scripted */
  readonly runners?: readonly Runner[];
  /** Receives alerts, besides the log. @default none */
  readonly alertSinks?: readonly AlertSink[];
  /** @default silent */
  readonly logger?: Logger;
}

/** The runners that come with Ropeway. */
export function builtInRunners(options?: SyncRunnerOptions): Runner[] {
  return [syncRunner(options), scriptedRunner()];
}

/** The cluster on one store. Does no I/O until it is used, and leaves the store open. */
export class Cluster {
  readonly store: Store;
  readonly tasks: Tasks;
  readonly nodes: Nodes;
  readonly alerts: Alerts;
  readonly #placement: Placement;

  constructor(store: Store, options: ClusterOptions = {}) {
    requireStore(store);
    const { secrets = new SecretBox(undefined), runners = builtInRunners() } = options;
    const { alertSinks = [], logger = silentLogger } = options;
    this.store = store;
    this.#placement = new Placement(store);
    const ids = new ClusterIds(store);
    this.tasks = new Tasks({ store, ids, placement: this.#placement, secrets, runners });
    this.nodes = new Nodes(store, this.tasks);
    this.alerts = new Alerts({ store, sinks: alertSinks, logger });
  }

  /** The role of a portal: registers it and inspects. */
  inspector(options: InspectorOptions): Inspector {
    const { store, alerts } = this;
    return new Inspector({ store, alerts, placement: this.#placement }, options);
  }
}
