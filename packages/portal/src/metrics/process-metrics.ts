/**
 * CPU, memory, event loop and garbage collection of this process. prom-client's collectors of these
 * cannot be stopped once they run, so there is one set per process and not one per portal; it is made
 * when the first portal starts.
 */
import { collectDefaultMetrics, Registry } from "prom-client";

let registry: Registry | undefined;

/** The registry of this process's own metrics. */
export function processMetrics(): Registry {
  if (registry === undefined) {
    registry = new Registry();
    collectDefaultMetrics({ register: registry });
  }
  return registry;
}
