/** /metrics: all metrics, in the Prometheus text format. */
import { Registry } from "prom-client";
import { needs, type PermissionSpecs } from "../access/permission.ts";
import type { PortalPart } from "../part.ts";
import { processMetrics } from "./process-metrics.ts";

/** The permissions of its routes. */
export const metricsPermissions: PermissionSpecs = {
  "metrics:view": { least: "viewer", means: "Read /metrics where it is not public." },
};

/** The part for metrics; with `isPublic`, a scraper needs no account. */
export function metricsPart(registry: Registry, isPublic: boolean): PortalPart {
  return {
    name: "metrics",
    about: { en: "Counters and gauges for Prometheus.", zh: "供 Prometheus 采集的指标。" },
    permissions: metricsPermissions,
    routes(app) {
      const all = Registry.merge([processMetrics(), registry]);
      const collect = oneAtATime(() => all.metrics());
      app.get(
        "/metrics",
        {
          config: needs(isPublic ? "public" : "metrics:view"),
          schema: {
            summary: "Metrics in the Prometheus text format",
            produces: ["text/plain"],
          },
        },
        async (_request, reply) => reply.type(all.contentType).send(await collect()),
      );
    },
  };
}

/** Collecting asks Redis about every queue and service: requests that come meanwhile share its outcome. */
function oneAtATime<T>(work: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= work().finally(() => {
      running = undefined;
    });
    return running;
  };
}
