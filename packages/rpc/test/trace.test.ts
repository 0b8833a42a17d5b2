import { AsyncLocalStorage } from "node:async_hooks";
import {
  type Context,
  type ContextManager,
  context,
  propagation,
  ROOT_CONTEXT,
  type SpanContext,
  trace,
} from "@opentelemetry/api";
import { afterAll, beforeAll, expect, test } from "vitest";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();

/** As little of an SDK as a trace needs: spans that only have a name, and the traceparent header. */
const storage = new AsyncLocalStorage<Context>();
const manager: ContextManager = {
  active: () => storage.getStore() ?? ROOT_CONTEXT,
  with: (active, fn, ...call) =>
    storage.run(active, () => (fn as unknown as () => never).call(...(call as [unknown]))),
  bind: (active, target) =>
    typeof target === "function"
      ? (((...args: unknown[]) => storage.run(active, () => target(...args))) as typeof target)
      : target,
  enable: () => manager,
  disable: () => manager,
};

const TRACE = "0af7651916cd43dd8448eb211c80319c";
let spans = 0;
const newSpan = (traceId: string) => {
  spans += 1;
  return trace.wrapSpanContext({
    traceId,
    spanId: spans.toString(16).padStart(16, "0"),
    traceFlags: 1,
  });
};

beforeAll(() => {
  context.setGlobalContextManager(manager);
  trace.setGlobalTracerProvider({
    getTracer: () => ({
      startSpan: (_name, _options, parent) =>
        newSpan(trace.getSpanContext(parent ?? context.active())?.traceId ?? "f".repeat(32)),
      startActiveSpan: (() => {}) as never,
    }),
  });
  propagation.setGlobalPropagator({
    inject: (active, carrier, setter) => {
      const span = trace.getSpanContext(active) as SpanContext;
      setter.set(carrier, "traceparent", `00-${span.traceId}-${span.spanId}-01`);
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

test("calls, streams, submitted calls and those of sessions belong to the trace of their caller", async () => {
  const seen: Record<string, string | undefined> = {};
  const note = (name: string) => {
    seen[name] = trace.getActiveSpan()?.spanContext().traceId;
  };
  await stage.serve(
    {
      call: ([name]: [string]) => note(name),
      async *stream([name]: [string]) {
        note(name);
        yield 1;
      },
    },
    { node: "n1", group: "g" },
  );
  const client = await stage.client();
  const session = client.session("g", "c1");
  await context.with(trace.setSpan(ROOT_CONTEXT, newSpan(TRACE)), async () => {
    await client.call("demo.call", ["call"]);
    await all(client.stream("demo.stream", ["stream"]));
    await client.poll(await client.submit("demo.call", ["submit"]), { waitMs: 10_000 });
    await session.call("demo.call", ["session call"]);
    await all(session.stream("demo.stream", ["session stream"]));
    await client.poll(await session.submit("demo.call", ["session submit"]), { waitMs: 10_000 });
  });
  await client.call("demo.call", ["untraced"]);
  expect(seen).toEqual({
    call: TRACE,
    stream: TRACE,
    submit: TRACE,
    "session call": TRACE,
    "session stream": TRACE,
    "session submit": TRACE,
    untraced: undefined,
  });
});
