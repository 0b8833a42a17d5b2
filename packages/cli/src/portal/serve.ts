/** The portal alone. */
import type { Context } from "../context.ts";
import { openLogger } from "../logger.ts";
import { findRedis, INTERACTIVE, openRedis } from "../redis-access.ts";
import { aborted } from "../wait.ts";
import { sayReady } from "./ready.ts";
import { startPortal } from "./start.ts";

/** Serves until Ctrl-C. */
export async function servePortal(context: Context): Promise<void> {
  const settings = context.settings();
  const logger = openLogger(settings.values["log.level"]);
  await using redis = await openRedis(await findRedis(context), { ...INTERACTIVE, logger });
  await using portal = await startPortal({ redis, settings, logger, mayMove: false });
  sayReady(context, { portal, redis: redis.where });
  await aborted(context.signal);
}
