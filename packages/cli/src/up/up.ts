/**
 * Everything on one machine. What it opens is closed in reverse by `await using`, on Ctrl-C as on a
 * failure half way: merge queue, portal, connection, Redis, claim.
 */
import { parseEndpoint } from "@ropeway/core";
import { provide } from "@ropeway/provide";
import { ensureSecretKey, openSettingsStore, servedCluster } from "../cluster/open-cluster.ts";
import type { Context } from "../context.ts";
import { openLogger } from "../logger.ts";
import { checkMergeSettings, startMerge } from "../merge/start.ts";
import { startLocalNode } from "../node/serve.ts";
import { alertSinks } from "../portal/alert-sinks.ts";
import type { PartPlan } from "../portal/parts.ts";
import { sayReady } from "../portal/ready.ts";
import { checkPortalSettings, startPortal } from "../portal/start.ts";
import { configuredRedis, INTERACTIVE, openRedis, type RedisPlace } from "../redis-access.ts";
import { aborted } from "../wait.ts";
import { type Home, openHome, openLog } from "./home.ts";
import { HomeClaim } from "./home-claim.ts";
import { RedisChild } from "./redis-child.ts";

/** Runs until Ctrl-C, or until its Redis cannot be kept up. */
export async function up(context: Context): Promise<void> {
  const { output, signal } = context;
  const settings = context.settings();
  const { values } = settings;
  const configured = configuredRedis(settings);
  await checkPortalSettings(settings);
  await checkMergeSettings(settings);
  const home = await openHome(values.home);
  await using claim = await HomeClaim.take(home, { onWait: (sentence) => output.note(sentence) });
  const logger = openLogger(values["log.level"], await openLog(home, "portal.log"));
  await using child = configured === undefined ? await startRedis(context, home) : undefined;
  signal.throwIfAborted();
  const place = configured ?? placeOf(child as RedisChild, home);
  await using redis = await openRedis(place, { ...INTERACTIVE, logger });
  await ensureSecretKey(home.path);
  await using store = await openSettingsStore(settings, redis, logger);
  const cluster = servedCluster(store, settings, {
    alertSinks: alertSinks(redis, settings),
    logger,
  });
  const plan: PartPlan = { redis, store, cluster, settings, logger, atHome: true };
  await using portal = await startPortal(plan);
  const id = values["node.id"] ?? "node_local";
  await using node = await startLocalNode({ store, settings, logger, id });
  await using merge = await startMerge(plan);
  const redisUrl = child && { redisUrl: child.url };
  await claim.tell({ url: portal.url, ...(merge && { mergeUrl: merge.url }), ...redisUrl });
  noteMoved(context, "portal.port", portal.url);
  if (merge !== undefined) noteMoved(context, "merge.port", merge.url);
  const shown = child?.url ?? redis.where;
  const exportUrl = child?.url;
  sayReady(context, {
    portal,
    merge,
    redis: shown,
    node: node.id,
    exportUrl,
    tries: tries(portal.url),
  });
  claim.lost.catch(() => child?.kill()); // its files belong to another process now
  await Promise.race([aborted(signal), claim.lost, ...(child === undefined ? [] : [child.failed])]);
  output.note("Stopping ...");
}

/** The home's own Redis, with a program that the machine has or gets. */
async function startRedis(context: Context, home: Home): Promise<RedisChild> {
  const { output, signal } = context;
  const { values, origins } = context.settings();
  const program = await provide("redis-server", {
    folder: values["up.programs"] ?? home.programs,
    env: { ...context.env, ROPEWAY_REDIS_SERVER: values["up.redisServer"] },
    onProgress: (sentence) => output.note(sentence),
    otherwise: "set REDIS_URL to a Redis that runs",
    signal,
  });
  const port = values["up.redisPort"];
  return RedisChild.start({
    command: program.command,
    home,
    log: await openLog(home, "redis.log"),
    appendfsync: values["up.appendfsync"],
    port: port === undefined ? undefined : { number: port, where: origins["up.redisPort"].where },
    onTrouble: (sentence) => output.warn(sentence),
    signal,
  });
}

function placeOf(child: RedisChild, home: Home): RedisPlace {
  return { endpoint: parseEndpoint(child.url), where: home.path };
}

/** Prints a note if a part does not listen on its default port. */
function noteMoved(context: Context, key: "portal.port" | "merge.port", url: string): void {
  const port = context.settings().values[key];
  if (port === 0 || url.endsWith(`:${port}`)) return;
  const part = key === "portal.port" ? "portal" : "merge queue";
  const used = new URL(url).port;
  context.output.note(
    `Port ${port} is in use by another program, so the ${part} uses port ${used}.`,
  );
}

function tries(portalUrl: string): readonly string[] {
  const health = `${portalUrl}/healthz`; // it also serves as an endpoint for trying deliveries
  return [
    `curl ${health}`,
    `npx ropeway merge push demo ${health} '"hello"' --method GET`,
    "npx ropeway doctor",
  ];
}
