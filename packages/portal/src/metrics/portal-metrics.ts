/**
 * What the portal itself counts. Labels have few values each: a route's template and never its path,
 * a method, a status, an outcome.
 */
import type { Redis } from "@ropeway/core";
import { Counter, Gauge, Histogram, Registry } from "prom-client";
import type { LoginOutcome } from "../access/authenticator.ts";
import { VERSION } from "../version.ts";

const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** How a request ended. */
export interface RequestOutcome {
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly seconds: number;
}

/** What the gauges read when they are collected. */
export interface Observed {
  readonly redis: Redis;
  readonly streams: { readonly size: number };
}

/** The metrics of one portal, in a registry of its own. */
export class PortalMetrics {
  readonly registry: Registry = new Registry();
  readonly #inFlight: Gauge;
  readonly #duration: Histogram<"method" | "route" | "status">;
  readonly #logins: Counter<"outcome">;

  constructor({ redis, streams }: Observed) {
    const registers = [this.registry];
    this.#duration = new Histogram({
      name: "ropeway_http_request_duration_seconds",
      help: "How long requests took, from the first byte in to the last byte out.",
      labelNames: ["method", "route", "status"],
      buckets: BUCKETS,
      registers,
    });
    this.#inFlight = new Gauge({
      name: "ropeway_http_requests_in_flight",
      help: "Requests that are being answered now, event streams included.",
      registers,
    });
    this.#logins = new Counter({
      name: "ropeway_logins_total",
      help: "Passwords that were tried: passed, failed, or not looked at (throttled).",
      labelNames: ["outcome"],
      registers,
    });
    for (const outcome of ["passed", "failed", "throttled"]) this.#logins.inc({ outcome }, 0);
    new Gauge({
      name: "ropeway_redis_connected",
      help: "1 while the portal is connected to its Redis, else 0.",
      registers,
      collect() {
        this.set(redis.connected ? 1 : 0);
      },
    });
    new Gauge({
      name: "ropeway_event_streams",
      help: "Event streams that are open now.",
      registers,
      collect() {
        this.set(streams.size);
      },
    });
    new Gauge({
      name: "ropeway_build_info",
      help: "Always 1; the version is its label.",
      labelNames: ["version"],
      registers,
    }).set({ version: VERSION }, 1);
  }

  requestBegan(): void {
    this.#inFlight.inc();
  }

  /** `outcome` is undefined for an event stream, whose length says nothing about speed. */
  requestEnded(outcome: RequestOutcome | undefined): void {
    this.#inFlight.dec();
    if (outcome === undefined) return;
    const { method, route, status, seconds } = outcome;
    this.#duration.observe({ method, route, status: String(status) }, seconds);
  }

  loginTried(outcome: LoginOutcome): void {
    this.#logins.inc({ outcome });
  }
}
