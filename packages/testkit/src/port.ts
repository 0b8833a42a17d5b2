// Ports for servers, chosen so that test files running side by side do not meet.
//
// Not `listen(0)`: that hands out ports of the ephemeral range, where any outgoing connection may
// take the number while our server is down between kill and restart, or even connect to itself.
// We draw below that range (Linux 32768+, macOS 49152+) and leave port + 10000 to the bus of a
// Redis Cluster node. Two processes may still draw the same number; then the second server fails
// with "Address already in use" and its starter draws again.
import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { TestkitError } from "./errors.ts";

const LOWEST = 11_000;
const HIGHEST = 21_999;
const BUS_OFFSET = 10_000;

/** A port nobody listens on now, with its cluster bus port free as well. */
export async function freePort(): Promise<number> {
  for (let draw = 0; draw < 100; draw++) {
    const port = randomInt(LOWEST, HIGHEST + 1);
    if ((await isFree(port)) && (await isFree(port + BUS_OFFSET))) return port;
  }
  throw new TestkitError("GAVE_UP", `no free port in ${LOWEST}..${HIGHEST} in 100 draws`);
}

/** Different free ports, as many as asked for. */
export async function freePorts(count: number): Promise<number[]> {
  const ports = new Set<number>();
  while (ports.size < count) ports.add(await freePort());
  return [...ports];
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once("error", () => resolve(false));
    probe.listen({ port, host: "127.0.0.1", exclusive: true }, () => {
      probe.close(() => resolve(true));
    });
  });
}
