/** From the library's objects to what the routes return. */
import { isUtf8 } from "node:buffer";
import {
  type Attempt,
  type DeadLetter,
  type Destination,
  destinationOf,
  type Endpoint,
  type PeekedItem,
  type PendingKey,
  type ScheduleView,
} from "@ropeway/merge";
import { isoTime, isoTimeOrEpoch } from "../http/iso-time.ts";
import type {
  AttemptView,
  DeadLetterView,
  DestinationView,
  EndpointView,
  MergeItem,
  MergeKey,
  MergeScheduleView,
} from "./merge-contract.ts";

export function keyView(pending: PendingKey): MergeKey {
  const { key, items, state, paused, attempts, error } = pending;
  return {
    ...{ key, items, state, paused, attempts },
    destination: destinationView(pending.destination),
    at: isoTime(pending.at),
    error: error ?? null,
  };
}

export function itemView(item: PeekedItem): MergeItem {
  const { id, pushedAt, contentType = "application/json", body, size } = item;
  const encoding = isUtf8(body) ? "utf8" : "base64";
  return {
    ...{ id, contentType, encoding, size, truncated: size > body.length },
    pushedAt: isoTimeOrEpoch(pushedAt),
    body: body.toString(encoding),
  };
}

export function letterView({ destination, at, ...letter }: DeadLetter): DeadLetterView {
  const view = { ...letter, destination: destinationView(destination) };
  return { ...view, at: isoTimeOrEpoch(at) };
}

export function endpointView(endpoint: Endpoint): EndpointView {
  const { url, delivered, failed, status, paused, breaker, secrets } = endpoint;
  return {
    ...{ url, delivered, failed, status, paused, breaker, secrets },
    at: isoTime(endpoint.at === 0 ? undefined : endpoint.at),
    heldUntil: isoTime(endpoint.heldUntil),
    openUntil: isoTime(endpoint.openUntil),
    disabled: endpoint.disabled ?? null,
    ratePerSecond: endpoint.ratePerSecond ?? null,
    concurrency: endpoint.concurrency ?? null,
  };
}

export function attemptView(attempt: Attempt): AttemptView {
  const { entry, key, batch, items, bytes, result, ms } = attempt;
  return {
    ...{ entry, key, batch, attempt: attempt.attempt, items, bytes, result, ms },
    destination: destinationView(destinationOf(key)),
    reason: attempt.reason ?? null,
    status: attempt.status ?? null,
    response: attempt.response ?? null,
    at: isoTimeOrEpoch(attempt.at),
  };
}

export function scheduleView(view: ScheduleView): MergeScheduleView {
  const { id, state, runs, error = null, schedule } = view;
  const times = { nextAt: isoTime(view.nextAt), lastAt: isoTime(view.lastAt) };
  if (schedule === undefined) return { id, state, ...times, runs, error, schedule: null };
  const { body, startAt, endAt, ...rest } = schedule;
  const encoding = typeof body === "string" || isUtf8(body) ? "utf8" : "base64";
  return {
    ...{ id, state, ...times, runs, error },
    schedule: {
      ...rest,
      ...{ encoding, body: typeof body === "string" ? body : body.toString(encoding) },
      ...(startAt !== undefined && { startAt: isoTimeOrEpoch(startAt) }),
      ...(endAt !== undefined && { endAt: isoTimeOrEpoch(endAt) }),
    },
  };
}

function destinationView(destination: Destination | undefined): DestinationView | null {
  return destination === undefined ? null : { ...destination };
}
