import { context, propagation, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { W3CTraceContextPropagator } from "@opentelemetry/core";
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
} from "@opentelemetry/sdk-trace-base";
import { currentTraceparent } from "@ropeway/core/internal";
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { z } from "zod";
import { needs, type PortalPart } from "../src/index.ts";
import { Stage } from "./stage.fixture.ts";

const spans = new InMemorySpanExporter();
const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
const PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const part: PortalPart = {
  name: "traced",
  about: { en: "", zh: "" },
  routes(app) {
    const schema = { body: z.object({ id: z.string() }).optional() };
    app.post("/traced/:id", { config: needs("public"), schema }, async () => {
      await new Promise((resolve) => setImmediate(resolve));
      return { inside: currentTraceparent() };
    });
    app.get("/broken", { config: needs("public") }, () => {
      throw new Error("boom");
    });
  },
};

let stage: Stage;

beforeAll(async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  trace.setGlobalTracerProvider(provider);
  stage = await Stage.open({ parts: [part] });
});

afterAll(async () => {
  await stage.close();
  await provider.shutdown();
  context.disable();
  propagation.disable();
  trace.disable();
});

test("a request is a span, the caller's child, and what its handler does belongs to it", async () => {
  const headers = { traceparent: PARENT };
  const answer = await stage.ask("/traced/7?x=1", { method: "POST", headers, body: { id: "7" } });
  const { inside } = (await answer.json()) as { inside: string };
  const span = await eventually(() => {
    const found = spans.getFinishedSpans().find(({ name }) => name === "POST /traced/:id");
    if (found === undefined) throw new Error("no span yet");
    return found;
  });
  expect(inside).toContain(`0af7651916cd43dd8448eb211c80319c-${span.spanContext().spanId}`);
  expect(span.parentSpanContext?.spanId).toBe("b7ad6b7169203331");
  expect(span.attributes).toEqual({
    "http.request.method": "POST",
    "http.route": "/traced/:id",
    "http.response.status_code": 200,
    "url.path": "/traced/7",
    "ropeway.request_id": answer.headers.get("x-request-id"),
  });
});

test("a request that fails on our side is a span with an error", async () => {
  await stage.ask("/broken");
  await eventually(() => {
    const span = spans.getFinishedSpans().find(({ name }) => name === "GET /broken");
    expect(span?.status.code).toBe(2);
  });
});
