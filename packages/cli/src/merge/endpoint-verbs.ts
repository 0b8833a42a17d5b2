/** `ropeway merge endpoints|endpoint|attempts|watch`: endpoints and what was tried there. */
import { type Attempt, destinationOf, type Endpoint, UnknownEndpointError } from "@ropeway/merge";
import type { Context } from "../context.ts";
import { durationOf } from "../duration.ts";
import { UsageError } from "../errors.ts";
import { stateCell } from "../terminal/colour.ts";
import { wholeNumber } from "../whole-number.ts";
import { pageOf, when, withMerge } from "./opened.ts";

export async function endpoints(context: Context): Promise<void> {
  const { options, output } = context;
  await withMerge(context, async (opened) => {
    const { enable, disable, pause } = options as Readonly<Record<string, string | undefined>>;
    if (enable !== undefined) await opened.endpoints.enable(enable);
    if (disable !== undefined) await opened.endpoints.disable(disable);
    if (pause !== undefined) await opened.endpoints.pause(pause);
    const page = await opened.endpoints.list(pageOf(options));
    output.list(
      { items: page.items.map(shown), cursor: page.cursor },
      {
        columns: {
          STATE: (endpoint) => stateCell(endpoint.state),
          DELIVERED: ({ delivered }) => delivered,
          FAILED: ({ failed }) => failed,
          LAST: ({ status }) => status,
          URL: ({ url }) => url,
        },
        empty: "no endpoint was called yet: push an item with `ropeway merge push KEY URL BODY`",
      },
    );
  });
}

/** What can be done to one endpoint. */
const CHANGES: Readonly<Record<string, string>> = {
  show: "",
  enable: "is enabled: batches are delivered to it again",
  disable: "is disabled: batches that come due for it become dead letters",
  pause: "is paused: batches that come due for it wait",
  limit: "has new limits",
  "rotate-secret": "has a new secret",
  "remove-secrets": "has no secret of its own",
};

export async function endpoint(context: Context): Promise<void> {
  const { options, output, arguments: given } = context;
  const [action = "show", url = ""] = given;
  const done = CHANGES[action];
  if (done === undefined) {
    const known = Object.keys(CHANGES).join(", ");
    throw new UsageError(`the action is ${JSON.stringify(action)}, but must be one of ${known}`);
  }
  await withMerge(context, async ({ endpoints: all }) => {
    if (action === "show") {
      const found = await all.get(url);
      if (found === undefined) throw new UnknownEndpointError(url);
      const { state, at, ratePerSecond, concurrency, ...rest } = shown(found);
      output.details(shown(found), {
        url: found.url,
        state: stateCell(state),
        delivered: rest.delivered,
        failed: rest.failed,
        "last status": rest.status,
        "last call": at ?? "-",
        "rate per second": ratePerSecond,
        concurrency,
        secrets: rest.secrets,
      });
      return;
    }
    if (action === "rotate-secret") {
      const graceMs = durationOf(options, "graceMs");
      const secret = await all.rotateSecret(url, graceMs === undefined ? {} : { graceMs });
      output.outcome(action, { url, secret }, secret);
      return;
    }
    if (action === "enable") await all.enable(url);
    if (action === "disable") await all.disable(url, options.reason as string | undefined);
    if (action === "pause") await all.pause(url);
    if (action === "remove-secrets") await all.removeSecrets(url);
    if (action === "limit") {
      const concurrency = wholeNumber(options, "concurrency", 1);
      const rate = options.rate === undefined ? undefined : Number(options.rate);
      await all.limit(url, { ratePerSecond: rate, concurrency });
    }
    output.outcome(action, { url }, `${url} ${done}`);
  });
}

export async function attempts(context: Context): Promise<void> {
  const { options, output } = context;
  await withMerge(context, async (opened) => {
    const page = await opened.attempts.list({ ...pageOf(options), ...filterOf(options) });
    const items = page.items.map((attempt) => ({ ...attempt, at: when(attempt.at) }));
    output.list(
      { items, cursor: page.cursor },
      {
        columns: {
          AT: ({ at }) => at,
          RESULT: ({ result }) => stateCell(result),
          STATUS: ({ status = "" }) => status,
          MS: ({ ms }) => ms,
          ITEMS: ({ items: count }) => count,
          URL: ({ key }) => destinationOf(key)?.url ?? key,
          REASON: ({ reason = "" }) => reason,
        },
        empty: "no delivery was tried yet: `ropeway merge list` shows the queued items",
      },
    );
  });
}

/** Prints attempts as they happen, until Ctrl-C. */
export async function watch(context: Context): Promise<void> {
  const { output, options } = context;
  const signal = AbortSignal.any([context.signal, output.unread]);
  await withMerge(context, async (opened) => {
    for await (const attempt of opened.attempts.follow({ ...filterOf(options), signal })) {
      const { at, result, status = "-", ms, key, reason = "" } = attempt;
      output.result({ ...attempt, at: when(at) }, () => {
        const url = destinationOf(key)?.url ?? key;
        output.line(`${when(at)} `, stateCell(result), ` ${status} ${ms} ms ${url} ${reason}`);
      });
    }
  });
}

function filterOf(options: Context["options"]) {
  const { key, url, result } = options as Readonly<Record<string, string | undefined>>;
  return { key, url, result: result as Attempt["result"] | undefined };
}

function shown(endpoint: Endpoint) {
  return {
    ...endpoint,
    at: endpoint.at === 0 ? null : when(endpoint.at),
    heldUntil: endpoint.heldUntil === undefined ? null : when(endpoint.heldUntil),
    openUntil: endpoint.openUntil === undefined ? null : when(endpoint.openUntil),
    state: stateOf(endpoint),
  };
}

function stateOf({ disabled, paused, breaker, heldUntil, status }: Endpoint): string {
  if (disabled !== undefined) return `disabled: ${disabled}`;
  if (paused) return "paused";
  if (breaker !== "closed") return `${breaker} circuit breaker`;
  if (heldUntil !== undefined) return `waiting until ${when(heldUntil)}`;
  return status === "" || /^2\d\d$/.test(status) ? "fine" : "failing";
}
