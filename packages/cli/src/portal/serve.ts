/** The portal on a running Redis, with the merge queue if --merge-serve is true. */
import { openSettingsStore, servedCluster } from "../cluster/open-cluster.ts";
import type { Context } from "../context.ts";
import { openLogger } from "../logger.ts";
import { checkMergeSettings, startMerge } from "../merge/start.ts";
import { findRedis, INTERACTIVE, openRedis } from "../redis-access.ts";
import { aborted } from "../wait.ts";
import { alertSinks } from "./alert-sinks.ts";
import type { PartPlan } from "./parts.ts";
import { sayReady } from "./ready.ts";
import { checkPortalSettings, startPortal } from "./start.ts";

/** Serves until Ctrl-C. */
export async function servePortal(context: Context): Promise<void> {
  const settings = context.settings();
  await checkPortalSettings(settings);
  await checkMergeSettings(settings);
  const logger = openLogger(settings.values["log.level"]);
  await using redis = await openRedis(await findRedis(context), { ...INTERACTIVE, logger });
  await using store = await openSettingsStore(settings, redis, logger);
  const cluster = servedCluster(store, settings, {
    alertSinks: alertSinks(redis, settings),
    logger,
  });
  const plan: PartPlan = { redis, store, cluster, settings, logger, atHome: false };
  await using portal = await startPortal(plan);
  await using merge = await startMerge(plan);
  sayReady(context, { portal, merge, redis: redis.where });
  await aborted(context.signal);
}
