/** The one command that the health checks send. */
import { NotConnectedError, type Redis } from "@ropeway/core";

/** Resolves if Redis responds. Throws NotConnectedError at once while there is no connection. */
export async function ping(redis: Redis): Promise<void> {
  if (!redis.connected) throw new NotConnectedError(redis.where, 0);
  await redis.send(["PING"], { repeatable: true });
}
