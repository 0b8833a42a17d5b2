/** A node as a process: registers, serves its health check, runs tasks until Ctrl-C. */
import { builtInRunners, ClusterNode, HealthServer, type Store } from "@ropeway/cluster";
import type { Logger } from "@ropeway/core";
import { show } from "@ropeway/core/internal";
import { startAfterFormer } from "../cluster/former-process.ts";
import { openSettingsStore, secretBoxOf } from "../cluster/open-cluster.ts";
import type { Context } from "../context.ts";
import { UsageError } from "../errors.ts";
import { listenOn } from "../listen.ts";
import { openLogger } from "../logger.ts";
import { findRedis, INTERACTIVE, openRedis } from "../redis-access.ts";
import { refusedSetting } from "../refused-option.ts";
import type { LoadedSettings } from "../settings/load.ts";
import { version } from "../version.ts";
import { aborted } from "../wait.ts";

/** A node that runs. */
export interface StartedNode extends AsyncDisposable {
  readonly id: string;
  readonly url: string;
}

/** What a node is started with. */
export interface NodePlan {
  readonly store: Store;
  readonly settings: LoadedSettings;
  readonly logger: Logger;
  readonly id: string;
}

/** Serves until Ctrl-C. */
export async function serveNode(context: Context): Promise<void> {
  const settings = context.settings();
  const id = settings.values["node.id"];
  if (id === undefined) throw new UsageError("a node needs an id: --id node_a, or ROPEWAY_NODE_ID");
  const logger = openLogger(settings.values["log.level"]);
  const onRedis = settings.values["store.url"] === "redis";
  await using redis = onRedis
    ? await openRedis(await findRedis(context), { ...INTERACTIVE, logger })
    : undefined;
  await using store = await openSettingsStore(settings, redis, logger);
  await using node = await startNode({ store, settings, logger, id });
  const { output } = context;
  output.result({ ready: true, id, url: node.url }, () =>
    output.line(`ropeway node ready ${id} ${node.url}`),
  );
  await aborted(context.signal);
}

/**
 * The node of `ropeway up`. After a crash, its record stays until its lease has ended:
 * it waits for that once.
 */
export function startLocalNode(plan: NodePlan): Promise<StartedNode> {
  return startAfterFormer(plan.settings.values["node.leaseMs"], () => startNode(plan));
}

/** Starts a node; closing it stops its tasks and gives the id back. */
export async function startNode({ store, settings, logger, id }: NodePlan): Promise<StartedNode> {
  const { values } = settings;
  const host = values["node.host"];
  const health = await listenOn({ key: "node.port", settings, atHome: false }, (port) =>
    HealthServer.listen({ host, port }),
  ).catch((error: unknown) => {
    throw isNoHostOfOurs(error) ? refusedSetting(settings, "node.host", refusedHost(host)) : error;
  });
  const url = `http://${host.includes(":") ? `[${host}]` : host}:${health.port}`;
  let node: ClusterNode;
  try {
    node = await openNode({ store, settings, logger, id }, url).start();
  } catch (error) {
    await health[Symbol.asyncDispose](); // a server that listens would keep the process from ending
    throw error;
  }
  health.serve(node);
  return {
    id,
    url,
    async [Symbol.asyncDispose]() {
      await node.close();
      await health[Symbol.asyncDispose]();
    },
  };
}

/** Whether no server can listen there, whatever the port. */
function isNoHostOfOurs(error: unknown): boolean {
  const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
  return ["ENOTFOUND", "EAI_AGAIN", "EADDRNOTAVAIL", "EINVAL"].includes(code ?? "");
}

function refusedHost(host: string) {
  return { value: show(host), allowed: "an address or a host name of this machine" };
}

function openNode({ store, settings, logger, id }: NodePlan, address: string): ClusterNode {
  const { values } = settings;
  const node = new ClusterNode(store, {
    id,
    address,
    runners: builtInRunners({ prefix: values.prefix }),
    secrets: secretBoxOf(settings),
    leaseMs: values["node.leaseMs"],
    maxTasks: values["node.maxTasks"],
    version,
    logger,
  });
  node.on("lost", () =>
    logger.error({ node: id }, "the node lost its lease and stopped its tasks"),
  );
  node.on("registered", () => logger.info({ node: id }, "the node is registered"));
  node.on("error", (error) => logger.warn({ err: error, node: id }, "the node has a problem"));
  return node;
}
