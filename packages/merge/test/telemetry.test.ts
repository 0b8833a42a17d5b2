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
import { connect } from "@ropeway/core";
import { inSpan, tracerOf } from "@ropeway/core/internal";
import { eventually, startRedis } from "@ropeway/testkit";
import { afterAll, expect, test } from "vitest";
import { HttpDispatcher, keyOf, MergeQueue } from "../src/index.ts";
import { INSTRUMENTS } from "../src/metrics.ts";
import { Receiver } from "./receiver.ts";

const spans = new InMemorySpanExporter();
const measured = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const reader = new PeriodicExportingMetricReader({ exporter: measured });
const meters = new MeterProvider({ readers: [reader] });

afterAll(async () => {
  await meters.shutdown();
  for (const api of [context, propagation, trace, metrics]) api.disable();
});

test("a delivery is a span linked to every pusher, carried on to the receiver, and counted", async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  const processor = new SimpleSpanProcessor(spans);
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [processor] }));
  metrics.setGlobalMeterProvider(meters);
  await using server = await startRedis();
  await using receiver = await Receiver.start();
  await using redis = await connect(server.url);
  await using queue = new MergeQueue(redis);
  const key = keyOf({ mergeKey: "k", method: "POST", url: receiver.url() }, "");
  const pushers = ["one", "two"].map((name) => tracerOf("test").startSpan(name));
  for (const span of pushers) await inSpan(span, () => queue.push(key, "1"));
  const dispatcher = await new HttpDispatcher(queue, { allow: ["loopback"] }).start();
  await eventually(() => expect(receiver.requests).toHaveLength(1));
  await dispatcher.close();
  const delivery = spans.getFinishedSpans().find(({ name }) => name === "process merge");
  expect(delivery?.links.map((link) => link.context.spanId)).toEqual(
    pushers.map((span) => span.spanContext().spanId),
  );
  expect(receiver.requests[0]?.headers.traceparent).toContain(delivery?.spanContext().traceId);
  await reader.forceFlush();
  const names = measured
    .getMetrics()
    .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics))
    .map(({ descriptor }) => descriptor.name);
  const { leaseLost: _, originFull: __, retries: ___, ...written } = INSTRUMENTS;
  expect(names).toEqual(expect.arrayContaining(Object.values(written).map(([name]) => name)));
});
