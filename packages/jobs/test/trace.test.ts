import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Context,
  type ContextManager,
  context,
  propagation,
  ROOT_CONTEXT,
  trace,
} from "@opentelemetry/api";
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { JobContext, Middleware } from "../src/index.ts";
import { OneRedis } from "./one-redis.ts";

const one = new OneRedis();

/** The minimum of an SDK that a trace needs: spans that only have a name, and the traceparent header. */
const storage = new AsyncLocalStorage<Context>();
const manager: ContextManager = {
  active: () => storage.getStore() ?? ROOT_CONTEXT,
  with: (active, fn, ...call) =>
    storage.run(active, () => (fn as unknown as () => never).call(...(call as [unknown]))),
  bind: (_active, target) => target,
  enable: () => manager,
  disable: () => manager,
};
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const span = (traceId: string) =>
  trace.wrapSpanContext({ traceId, spanId: "00f067aa0ba902b7", traceFlags: 1 });

beforeAll(() => {
  context.setGlobalContextManager(manager);
  trace.setGlobalTracerProvider({
    getTracer: () => ({
      startSpan: (_name, _options, parent) =>
        span(trace.getSpanContext(parent ?? context.active())?.traceId ?? "f".repeat(32)),
      startActiveSpan: (() => {}) as never,
    }),
  });
  propagation.setGlobalPropagator({
    inject: (active, carrier, setter) => {
      const found = trace.getSpanContext(active);
      if (found === undefined) return;
      setter.set(carrier, "traceparent", `00-${found.traceId}-${found.spanId}-01`);
    },
    extract: (active, carrier, getter) => {
      const [, traceId = "", spanId = ""] = String(getter.get(carrier, "traceparent")).split("-");
      return trace.setSpanContext(active, { traceId, spanId, traceFlags: 1, isRemote: true });
    },
    fields: () => ["traceparent"],
  });
});

afterAll(() => {
  trace.disable();
  context.disable();
  propagation.disable();
});

it("jobs, flows, their children in other queues and those of running jobs belong to the trace of their producer", async () => {
  const [queue, other] = [one.queue(), one.queue()];
  const seen: Record<string, string | undefined> = {};
  const handler = async (job: JobContext) => {
    seen[job.name] = trace.getActiveSpan()?.spanContext().traceId;
    if (job.name !== "root" || (await job.children()).length > 2) return;
    await job.addChildren([{ name: "late" }]);
    job.waitForChildren();
  };
  const wrapped: Record<string, string | undefined> = {};
  const middleware: Middleware[] = [
    (job, next) => {
      wrapped[job.name] = trace.getActiveSpan()?.spanContext().traceId;
      return next();
    },
  ];
  for (const each of [queue, other]) one.worker(each, handler, { middleware });
  const children = [{ name: "child" }, { name: "abroad", queue: other.name }];
  await context.with(trace.setSpan(ROOT_CONTEXT, span(TRACE)), async () => {
    await queue.add("plain");
    await queue.addBulk([{ name: "bulk" }]);
    await queue.addFlow({ name: "root", children });
  });
  await queue.add("alone");
  const names = ["plain", "bulk", "root", "child", "abroad", "late"];
  await eventually(
    () => {
      expect(seen).toEqual({
        ...Object.fromEntries(names.map((name) => [name, TRACE])),
        alone: undefined,
      });
    },
    { withinMs: 20_000 },
  );
  expect(wrapped).toEqual(seen);
});
