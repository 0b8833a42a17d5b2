/**
 * The merge queue on /metrics; docs/reference/metrics.md lists it. Everything comes from Redis: the gauges
 * from the queue itself, the counters from the totals that all dispatchers keep there. So every portal
 * shows the same numbers, wherever the dispatchers run.
 */
import type { Attempts, Inspector, MergeTotals } from "@ropeway/merge";
import { LATENESS_BOUNDS_MS } from "@ropeway/merge/internal";
import { Counter, Gauge, type Metric, type Registry } from "prom-client";

const GAUGES = {
  keys: ["ropeway_merge_keys", "Keys of the merge queue with items."],
  due: ["ropeway_merge_due_keys", "Keys that are due and not taken yet."],
  deadLetters: ["ropeway_merge_dead_letters", "Batches that were given up."],
  oldestDueMs: ["ropeway_merge_oldest_due_seconds", "How long the oldest due key has been due."],
  broken: ["ropeway_merge_broken_keys", "Keys that were set aside because their list is no list."],
  openBreakers: ["ropeway_merge_open_breakers", "Origins whose circuit breaker is not closed."],
} as const;

const COUNTERS = {
  deliveries: ["ropeway_merge_deliveries_total", "Attempts to deliver a batch.", "result"],
  items: ["ropeway_merge_items_total", "Items in the batches of these attempts.", "result"],
  bytes: ["ropeway_merge_bytes_total", "Bytes of the bodies in these batches.", "result"],
  failures: ["ropeway_merge_failures_total", "Attempts that failed.", "reason"],
} as const;

export function addMetrics(registry: Registry, inspector: Inspector, attempts: Attempts): void {
  const registers = [registry];
  addGauges(registers, inspector);
  // Read anew for each scrape; while Redis is unreachable, the metrics keep their values.
  const totals = shared(() => attempts.totals().catch(() => undefined));
  for (const [group, [name, help, label]] of Object.entries(COUNTERS)) {
    new Counter({
      ...{ name, help, registers, labelNames: [label] },
      async collect() {
        const all = await totals();
        if (all === undefined) return;
        this.reset();
        for (const [value, count] of Object.entries(all[group as keyof typeof COUNTERS])) {
          this.inc({ [label]: value }, count);
        }
      },
    });
  }
  new Counter({
    name: "ropeway_merge_retries_total",
    help: "Attempts that were not the first of their batch.",
    registers,
    async collect() {
      const all = await totals();
      if (all === undefined) return;
      this.reset();
      this.inc(all.retries);
    },
  });
  registry.registerMetric(latenessMetric(totals));
}

function addGauges(registers: Registry[], inspector: Inspector): void {
  const stats = shared(() => inspector.stats().catch(() => undefined));
  for (const [field, [name, help]] of Object.entries(GAUGES)) {
    new Gauge({
      ...{ name, help, registers },
      async collect() {
        const all = await stats();
        if (all === undefined) return;
        const value = all[field as keyof typeof GAUGES];
        this.set(field === "oldestDueMs" ? value / 1_000 : value);
      },
    });
  }
}

/** A histogram whose counts are read from Redis. It has only the members that a registry uses. */
function latenessMetric(totals: () => Promise<MergeTotals | undefined>): Metric {
  const [name, help] = ["ropeway_merge_lateness_seconds", "How late batches were first taken."];
  const bucket = `${name}_bucket`;
  let last: MergeTotals["lateness"] = { buckets: {}, count: 0, sumMs: 0 };
  const metric = {
    ...{ name, help, type: "histogram", aggregator: "sum", labelNames: [] },
    reset() {},
    async get() {
      last = (await totals())?.lateness ?? last;
      let sum = 0;
      const buckets = LATENESS_BOUNDS_MS.map((ms) => {
        sum += last.buckets[ms] ?? 0;
        return { labels: { le: ms / 1_000 }, value: sum, metricName: bucket };
      });
      const values = [
        ...buckets,
        { labels: { le: "+Inf" }, value: last.count, metricName: bucket },
        { labels: {}, value: last.sumMs / 1_000, metricName: `${name}_sum` },
        { labels: {}, value: last.count, metricName: `${name}_count` },
      ];
      return { name, help, type: "histogram", aggregator: "sum", values };
    },
  };
  return metric as unknown as Metric;
}

/** The metrics of one scrape share one read: callers during it get the same result. */
function shared<T>(look: () => Promise<T>): () => Promise<T> {
  let running: Promise<T> | undefined;
  return () => {
    running ??= look().finally(() => {
      running = undefined;
    });
    return running;
  };
}
