/** The instruments of calls, through OpenTelemetry; without an SDK they do nothing. */
import type { Attributes, Counter, Histogram as OtelHistogram } from "@opentelemetry/api";
import { meterOf } from "@ropeway/core/internal";

/** Every instrument by name, with its description. A test compares the reference with this table. */
export const METRICS = {
  "ropeway.rpc.client.duration": "ms from sending a call to its response; service, method, outcome",
  "ropeway.rpc.server.duration": "ms a handler took; service, method, outcome",
  "ropeway.rpc.server.expired": "calls refused unread because their deadline had passed; service",
  "ropeway.rpc.server.shed": "calls refused because of load; service",
  "ropeway.rpc.server.set_aside": "messages without a usable id, kept in the dead list; service",
} as const;

type HistogramName = `ropeway.rpc.${"client" | "server"}.duration`;

/** The instruments of one client or server. */
export class Metrics {
  readonly #duration: OtelHistogram;
  readonly #expired: Counter;
  readonly #setAside: Counter;
  readonly #shed: Counter;

  constructor(side: "client" | "server") {
    const meter = meterOf("rpc");
    const name: HistogramName = `ropeway.rpc.${side}.duration`;
    this.#duration = meter.createHistogram(name, { description: METRICS[name], unit: "ms" });
    this.#expired = counter(meter, "ropeway.rpc.server.expired");
    this.#setAside = counter(meter, "ropeway.rpc.server.set_aside");
    this.#shed = counter(meter, "ropeway.rpc.server.shed");
  }

  duration(ms: number, attributes: Attributes): void {
    this.#duration.record(ms, attributes);
  }

  expired(service: string): void {
    this.#expired.add(1, { service });
  }

  shed(service: string): void {
    this.#shed.add(1, { service });
  }

  setAside(service: string): void {
    this.#setAside.add(1, { service });
  }
}

function counter(meter: ReturnType<typeof meterOf>, name: keyof typeof METRICS): Counter {
  return meter.createCounter(name, { description: METRICS[name] });
}
