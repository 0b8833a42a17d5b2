import { context, metrics, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from "@opentelemetry/sdk-metrics";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { eventually, startRedis } from "@ropeway/testkit";
import { afterAll, expect, test } from "vitest";
import { connect } from "../src/index.ts";
import { contextOf, currentTraceparent, inSpan, tracerOf } from "../src/telemetry.ts";

const spans = new InMemorySpanExporter();
const measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter: measured });
const meters = new MeterProvider({ readers: [reader] });

test("without an SDK nothing is propagated and nothing breaks", async () => {
  expect(currentTraceparent()).toBeUndefined();
  expect(await inSpan(tracerOf("core").startSpan("x"), async () => 1)).toBe(1);
});

test("a span's context travels as a traceparent and comes back", async () => {
  install();
  const span = tracerOf("core").startSpan("outer");
  const traceparent = await inSpan(span, async () => currentTraceparent());
  expect(traceparent).toContain(span.spanContext().traceId);
  const received = trace.getSpanContext(contextOf(traceparent));
  expect(received?.spanId).toBe(span.spanContext().spanId);
  expect(contextOf(undefined)).toBe(context.active());
});

test("a failure is recorded on the span and thrown on", async () => {
  const failing = inSpan(tracerOf("core").startSpan("failing"), () =>
    Promise.reject(new Error("boom")),
  );
  await expect(failing).rejects.toThrow("boom");
  const span = spans.getFinishedSpans().find((each) => each.name === "failing");
  expect(span?.status).toEqual({ code: 2, message: "boom" });
  expect(span?.events.map((event) => event.name)).toEqual(["exception"]);
});

test("connections made and lost are counted", async () => {
  await using server = await startRedis();
  await using redis = await connect(server.url, { name: "counted" });
  await server.kill9();
  await server.start();
  await eventually(() => expect(redis.connected).toBe(true));
  await reader.forceFlush();
  expect(counted("ropeway.redis.links")).toBe(2);
  expect(counted("ropeway.redis.losses")).toBe(1);
});

afterAll(() => meters.shutdown());

function install(): void {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const spanProcessors = [new SimpleSpanProcessor(spans)];
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors }));
  metrics.setGlobalMeterProvider(meters);
}

function counted(name: string): unknown {
  const last = measured.getMetrics().at(-1);
  const points = last?.scopeMetrics.flatMap((scope) => scope.metrics) ?? [];
  return points.find((metric) => metric.descriptor.name === name)?.dataPoints[0]?.value;
}
