/** Everything about the Redis in use: reachable, new enough, whole, and each of its servers as it should be. */
import { type Endpoint, type Redis, RopewayError } from "@ropeway/core";
import { reasonOf } from "@ropeway/core/internal";
import type { Context } from "../context.ts";
import { NoRedisError } from "../errors.ts";
import { findRedis, openRedis, type RedisPlace } from "../redis-access.ts";
import { readClusterInfo, readMasters } from "../store.ts";
import { type Finding, fail, ok } from "./finding.ts";
import { checkServer } from "./server-checks.ts";
import { gatherFacts } from "./server-facts.ts";

export async function checkRedis(context: Context): Promise<Finding[]> {
  let place: RedisPlace;
  let opened: Redis;
  try {
    place = await findRedis(context);
    opened = await openRedis(place);
  } catch (error) {
    return [unusable(error)];
  }
  await using redis = opened;
  const reached = ok("redis", `${redis.server.title} at ${redis.where} (from ${place.where})`);
  const rest =
    redis.topology === "cluster"
      ? await checkCluster(redis, place)
      : checkServer(await gatherFacts(redis));
  return [reached, ...rest];
}

function unusable(error: unknown): Finding {
  if (error instanceof NoRedisError) {
    return fail("redis", "none is set, none runs here", "set REDIS_URL, or run `ropeway up`");
  }
  if (!(error instanceof RopewayError) || error.details.advice === undefined) throw error;
  return fail("redis", reasonOf(error.cause).replace(/\.$/, ""), String(error.details.advice));
}

/** Each master has a part of the data, so each one is checked. */
async function checkCluster(cluster: Redis, place: RedisPlace): Promise<Finding[]> {
  const info = await readClusterInfo(cluster);
  const covered = info.get("cluster_slots_ok") ?? "0";
  const found = `${info.get("cluster_size")} masters, ${covered} of 16384 slots`;
  const whole =
    info.get("cluster_state") === "ok" && covered === "16384"
      ? ok("cluster", found)
      : fail("cluster", found, "repair it: redis-cli --cluster check");
  const findings = [whole];
  for (const { host, port } of await readMasters(cluster)) {
    const { masterName: _, ...credentials } = place.endpoint;
    const endpoint: Endpoint = {
      ...credentials,
      topology: "standalone",
      addresses: [{ host, port }],
    };
    await using master = await openRedis({ endpoint, where: place.where });
    const checks = checkServer(await gatherFacts(master));
    findings.push(
      ...checks.map((finding) => ({ ...finding, check: `${finding.check} ${host}:${port}` })),
    );
  }
  return findings;
}
