/**
 * Spans and metrics through @opentelemetry/api, which does nothing until the application installs an
 * SDK. One tracer and one meter per package, named after it.
 */
import {
  type Context,
  context,
  type Meter,
  metrics,
  propagation,
  type Span,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { reasonOf } from "./errors.ts";

/** The tracer of a Ropeway package, for example "rpc". */
export function tracerOf(part: string): Tracer {
  return trace.getTracer(`@ropeway/${part}`);
}

/** The meter of a Ropeway package. */
export function meterOf(part: string): Meter {
  return metrics.getMeter(`@ropeway/${part}`);
}

/** The W3C traceparent of the current span, to be sent with a message. */
export function currentTraceparent(): string | undefined {
  const carrier: { traceparent?: string } = {};
  propagation.inject(context.active(), carrier);
  return carrier.traceparent;
}

/** The context of a received traceparent; the current context if there is none. */
export function contextOf(traceparent: string | undefined): Context {
  if (traceparent === undefined) return context.active();
  return propagation.extract(context.active(), { traceparent });
}

/** Runs `work` inside the span, records a failure on it, and ends it. */
export async function inSpan<T>(span: Span, work: () => Promise<T>): Promise<T> {
  try {
    return await context.with(trace.setSpan(context.active(), span), work);
  } catch (error) {
    span.recordException(error instanceof Error ? error : String(error));
    span.setStatus({ code: SpanStatusCode.ERROR, message: reasonOf(error) });
    throw error;
  } finally {
    span.end();
  }
}
