/** `ropeway rpc notify|submit|poll|cancel`: calls whose result is read later, or not at all. */
import { TimeoutError } from "@ropeway/core";
import { createClient } from "@ropeway/rpc";
import type { Context } from "../context.ts";
import { durationOf } from "../duration.ts";
import { findRedis, openRedis } from "../redis-access.ts";
import { requestOf, showProgress, ticketOf, wireOf } from "./request.ts";

export async function notify(context: Context): Promise<void> {
  const { ns, rest, params } = await requestOf(context);
  await using redis = await openRedis(await findRedis(context));
  await using client = await createClient(redis, wireOf(context, ns));
  await client.notify(rest, params, { signal: context.signal });
  context.output.outcome(
    "sent",
    { target: context.arguments[0] },
    `${context.arguments[0]} called`,
  );
}

export async function submit(context: Context): Promise<void> {
  const { options, output, signal } = context;
  const { ns, rest, params } = await requestOf(context);
  const timeoutMs = durationOf(options, "timeout", 1);
  await using redis = await openRedis(await findRedis(context));
  await using client = await createClient(redis, wireOf(context, ns));
  const ticket = await client.submit(rest, params, { signal, timeoutMs });
  const full = options.dialect === "kw" ? ticket : `${ns}/${ticket}`;
  output.outcome("submitted", { ticket: full }, full);
}

export async function poll(context: Context): Promise<void> {
  const { options, output, signal } = context;
  const { ns, ticket } = ticketOf(context);
  const waitMs = durationOf(options, "wait") ?? 0;
  await using redis = await openRedis(await findRedis(context));
  await using client = await createClient(redis, wireOf(context, ns));
  if (options.progress === true) {
    for await (const report of client.progress(ticket, { signal })) showProgress(output, report);
  }
  const found = await client.poll(ticket, { waitMs, signal });
  if (found === null) throw new TimeoutError(`waiting for the result of ${ticket}`, waitMs);
  output.line(JSON.stringify(found.result ?? null));
}

export async function cancel(context: Context): Promise<void> {
  const { ns, ticket } = ticketOf(context);
  await using redis = await openRedis(await findRedis(context));
  await using client = await createClient(redis, wireOf(context, ns));
  await client.cancel(ticket);
  const [full] = context.arguments;
  context.output.outcome("cancelled", { ticket: full }, `${full} cancelled`);
}
