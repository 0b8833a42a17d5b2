/** The writes of a chaos run, on a plain socket, because a promise for each of 20,000 writes per second costs too much. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { RedisServer } from "@ropeway/testkit";

/** The keys and the rate of the writes. */
export interface LoadOptions {
  readonly writesPerS: number;
  readonly dbs: readonly string[];
  /** The number of keys of each kind. */
  readonly keys: number;
  /** The end, as a time of performance.now(). */
  readonly end: number;
}

/** The number of rounds per round trip. */
const PIPELINE = 40;
const WRITES_PER_ROUND = 5;

/** Writes at the rate until the end. Resolves to the number of writes. */
export async function writeLoad(server: RedisServer, options: LoadOptions): Promise<number> {
  const { writesPerS, end } = options;
  const socket = connect({ host: server.host, port: server.port });
  await once(socket, "connect");
  try {
    const started = performance.now();
    let rounds = 0;
    while (performance.now() < end) {
      const due = ((performance.now() - started) / 1_000) * (writesPerS / WRITES_PER_ROUND);
      if (rounds > due) {
        await new Promise((resolve) => setTimeout(resolve, 2));
        continue;
      }
      let commands = "";
      for (const last = rounds + PIPELINE; rounds < last; rounds++) {
        for (const argv of roundOf(rounds, options)) commands += encoded(argv);
      }
      await sent(socket, commands, `batch-${rounds}`);
    }
    return rounds * WRITES_PER_ROUND;
  } finally {
    socket.destroy();
  }
}

/** Sends commands and waits for an ECHO after them. Rejects if the source refused one of them. */
async function sent(socket: Socket, commands: string, token: string): Promise<void> {
  socket.write(commands + encoded(["ECHO", token]));
  let replies = "";
  while (!replies.endsWith(`${token}\r\n`)) {
    const [chunk] = (await once(socket, "data")) as [Buffer];
    replies += chunk.toString("latin1");
  }
  const refused = /^-.*$/m.exec(replies);
  if (refused !== null) throw new Error(`the source refused a write: ${refused[0]}`);
}

function roundOf(round: number, { keys, dbs }: LoadOptions): string[][] {
  const [a, b] = [round % keys, (round * 7) % keys];
  return [
    ["SELECT", dbs[round % dbs.length] ?? "0"],
    ["INCR", `n${a}`],
    ["LPUSH", `list${b}`, String(round)],
    ["APPEND", `text${a}`, `${round},`],
    ["MULTI"],
    ["INCRBY", `x${a}`, "3"],
    ["DECRBY", `y${b}`, "3"],
    ["EXEC"],
  ];
}

function encoded(argv: readonly string[]): string {
  return `*${argv.length}\r\n${argv.map((word) => `$${word.length}\r\n${word}\r\n`).join("")}`;
}
