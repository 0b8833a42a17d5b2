// Chooses server ports so that test files running in parallel do not collide.
//
// Not `listen(0)`: that returns ports of the ephemeral range, where any outgoing connection may take
// the port while our server is down between kill and restart, or even connect to itself. We choose
// below that range (Linux 32768+, macOS 49152+) and leave port + 10000 to the bus of a Redis Cluster
// node. Two processes may still choose the same port. The second server then fails with "Address
// already in use", and its start function tries another port.
import { randomInt } from "node:crypto";
import { createServer } from "node:net";
import { TestkitError } from "./errors.ts";

const LOWEST = 11_000;
const HIGHEST = 21_999;
const BUS_OFFSET = 10_000;

/** A free port whose cluster bus port is free as well. */
export async function freePort(): Promise<number> {
  for (let draw = 0; draw < 100; draw++) {
    const port = randomInt(LOWEST, HIGHEST + 1);
    if ((await isFree(port)) && (await isFree(port + BUS_OFFSET))) return port;
  }
  throw new TestkitError("GAVE_UP", `no free port in ${LOWEST}..${HIGHEST} after 100 attempts`);
}

/** `count` different free ports. */
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
