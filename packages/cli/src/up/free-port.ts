/**
 * Ports for servers of ours. Not `listen(0)`: that hands out ports of the range that outgoing
 * connections use (Linux 32768+, macOS 49152+), so a port kept for the next start would often be
 * taken then. Between finding a port free and using it another program may take it; the caller must be
 * ready to choose another one.
 */
import { randomInt } from "node:crypto";
import { createServer } from "node:net";

const LOWEST = 20_000;
const HIGHEST = 31_999;
const DRAWS = 200;

/** A port that is free now. */
export async function freePort(host: string): Promise<number> {
  for (let draw = 0; draw < DRAWS; draw++) {
    const port = randomInt(LOWEST, HIGHEST + 1);
    if (await isFree(host, port)) return port;
  }
  throw new Error(`no free port found from ${LOWEST} to ${HIGHEST} on ${host}`);
}

/** Whether one could listen there now. */
export function isFree(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen({ host, port, exclusive: true }, () => probe.close(() => resolve(true)));
  });
}

/** Whether an error, or what caused it, is a port that another program has. */
export function isAddressInUse(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (error as NodeJS.ErrnoException).code === "EADDRINUSE" || isAddressInUse(error.cause);
}
