/** The merge queue of the settings' Redis and prefix, for the length of one command. */
import {
  AddressGuard,
  Attempts,
  DeadLetters,
  EndpointQueue,
  Endpoints,
  Inspector,
  MergeQueue,
  Schedules,
} from "@ropeway/merge";
import type { Context } from "../context.ts";
import { configuredRedis, findRedis, openRedis } from "../redis-access.ts";
import { namingFlags } from "../refused-option.ts";
import { isoTime } from "../terminal/time.ts";
import { homeAt } from "../up/home.ts";
import { holderOf } from "../up/home-claim.ts";
import { wholeNumber } from "../whole-number.ts";
import { allowedAddresses } from "./allowed.ts";
import { mergeQueueOptions } from "./start.ts";

/** What the verbs work with. */
export interface OpenedMerge {
  readonly queue: MergeQueue;
  readonly inspector: Inspector;
  readonly letters: DeadLetters;
  readonly endpoints: Endpoints;
  readonly attempts: Attempts;
  readonly schedules: Schedules;
  /** Checks addresses as the HTTP interface does. */
  readonly at: EndpointQueue;
}

/** Opens the queue, does the work, and closes the connection. */
export async function withMerge(
  context: Context,
  work: (opened: OpenedMerge) => Promise<void>,
): Promise<void> {
  const settings = context.settings();
  const isUp = (await holderOf(homeAt(settings.values.home))) !== undefined;
  const atHome = isUp || configuredRedis(settings) === undefined;
  const guard = new AddressGuard(allowedAddresses({ settings, atHome }));
  await using redis = await openRedis(await findRedis(context));
  const queue = new MergeQueue(redis, mergeQueueOptions(settings.values));
  await namingFlags({}, () =>
    work({
      queue,
      inspector: new Inspector(queue),
      letters: new DeadLetters(queue),
      endpoints: new Endpoints(queue),
      attempts: new Attempts(queue),
      schedules: new Schedules(queue, guard),
      at: new EndpointQueue(queue, guard),
    }),
  );
}

/** --limit and --cursor. */
export function pageOf(options: Context["options"]): { limit: number; cursor: string | undefined } {
  const limit = wholeNumber(options, "limit", 1) ?? 50;
  return { limit: Math.min(limit, 1_000), cursor: options.cursor as string | undefined };
}

/** A time as ISO string; "-" if it is out of range. */
export function when(ms: number | undefined): string {
  if (ms === undefined || !(Math.abs(ms) <= 253_402_300_799_999)) return "-";
  return isoTime(ms);
}
