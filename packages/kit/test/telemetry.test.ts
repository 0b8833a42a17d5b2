import { metrics } from "@opentelemetry/api";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import { eventually } from "@ropeway/testkit";
import { afterAll, expect, test } from "vitest";
import { Lock } from "../src/lock/index.ts";
import { INSTRUMENTS } from "../src/metrics.ts";
import { live } from "./life.ts";
import { twoConnections } from "./two-connections.ts";

const { server, redis } = await twoConnections("t");
const measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter: measured });
const meters = new MeterProvider({ readers: [reader] });

afterAll(async () => {
  await meters.shutdown();
  metrics.disable();
});

test("every part of the kit is measured", async () => {
  metrics.setGlobalMeterProvider(meters);
  await live(redis, "");
  const held = await new Lock(redis, "lost").acquire({ ttlMs: 100 });
  await server.command("DEL", "lock:lost");
  await eventually(() => expect(held.signal.aborted).toBe(true));
  await reader.forceFlush();
  const names = measured
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics))
    .map(({ descriptor }) => descriptor.name);
  expect(names).toEqual(expect.arrayContaining(Object.values(INSTRUMENTS).map(([name]) => name)));
});
