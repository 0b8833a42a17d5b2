/** Whether an error only says that Redis cannot be used at the moment. */
import { isReply, RopewayError } from "@ropeway/core";

/** The pause before a command is repeated that found Redis unreachable. */
export const AWAY_MS = 200;

/** What Redis replies while it starts, fails over or runs a long script. */
const NOT_NOW = ["LOADING", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "READONLY"];

/** True for a lost or missing connection, and for a Redis that is not ready. */
export function isAway(error: unknown): boolean {
  const code = error instanceof RopewayError ? error.code : "";
  if (code === "CONNECTION_LOST" || code === "NOT_CONNECTED") return true;
  return NOT_NOW.some((prefix) => isReply(error, prefix));
}
