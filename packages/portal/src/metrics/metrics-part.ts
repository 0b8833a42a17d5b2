/** /metrics: everything that is counted, in the Prometheus text format. */
import { Registry } from "prom-client";
import { needs } from "../access/permission.ts";
import type { PortalPart } from "../part.ts";
import { processMetrics } from "./process-metrics.ts";

/** Collecting asks Redis about every queue and service: many who ask at once share one answer. */
const COLLECT_MS = 500;

/** The part for metrics; `isPublic` lets a scraper in without an account. */
export function metricsPart(registry: Registry, isPublic: boolean): PortalPart {
  return {
    name: "metrics",
    about: { en: "Counters and gauges for Prometheus.", zh: "供 Prometheus 采集的指标。" },
    permissions: {
      "metrics:view": { least: "viewer", means: "Read /metrics where it is not public." },
    },
    routes(app) {
      const all = Registry.merge([processMetrics(), registry]);
      const collect = atMostEvery(COLLECT_MS, () => all.metrics());
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

/** Calls the function at most once in so many ms; between, what it returned last is returned again. */
function atMostEvery<T>(ms: number, work: () => Promise<T>): () => Promise<T> {
  let last: { readonly value: Promise<T>; readonly until: number } | undefined;
  return () => {
    const now = performance.now();
    if (last === undefined || now >= last.until) {
      const value = work();
      last = { value, until: now + ms };
      value.catch(() => {
        last = undefined;
      });
    }
    return last.value;
  };
}
