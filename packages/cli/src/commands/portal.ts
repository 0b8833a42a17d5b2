import { type CliCommand, defineCommand } from "../cli-command.ts";
import type { Context } from "../context.ts";
import { openLogger } from "../logger.ts";
import { startPortal } from "../portal-start.ts";
import { sayReady } from "../ready.ts";
import { findRedis, INTERACTIVE, openRedis } from "../redis-access.ts";
import { aborted } from "../wait.ts";

/** `ropeway portal`: the portal alone, on a Redis that runs already. */
export function portalCommand(): CliCommand {
  return defineCommand("portal", "Serve the portal on a Redis that runs already")
    .uses("home", "redis.url", "redis.passwordFile", "portal.host", "portal.port")
    .uses("portal.prefix", "portal.adminPasswordFile", "log.level")
    .runs(servePortal);
}

async function servePortal(context: Context): Promise<undefined> {
  const settings = context.settings();
  using log = openLogger(settings.values["log.level"]);
  const { logger } = log;
  await using redis = await openRedis(await findRedis(context), { ...INTERACTIVE, logger });
  await using portal = await startPortal({ redis, settings, logger, mayMove: false });
  sayReady(context, { portal, redis: redis.where });
  await aborted(context.signal);
  return undefined;
}
