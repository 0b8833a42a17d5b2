// A master that is imagined here says what a real one says seldom, and tells what the replica says.
import { type AddressInfo, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { PsyncFeed, type ReplicaSource } from "../../src/source/psync-feed.ts";
import type { Connection } from "../../src/wire/connection.ts";

const REPLID = "a".repeat(40);

/** Accepts replicas at any offset; `heard` has the lines that they send. */
async function imaginedMaster() {
  const heard: string[] = [];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on("error", () => {});
    socket.on("data", (data) => {
      const words = data
        .toString()
        .split("\r\n")
        .filter((word) => word !== "" && !/^[*$]/.test(word));
      heard.push(words.join(" "));
      if (words[0] === "PSYNC") socket.write("+CONTINUE\r\n");
      else if (!words.includes("ACK")) socket.write("+OK\r\n");
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = { host: "127.0.0.1", port: (server.address() as AddressInfo).port };
  const connection = {
    where: "imagined",
    call: async () => `master_replid:${REPLID}\r\nmaster_repl_offset:100\r\n`,
    [Symbol.asyncDispose]: async () => {},
  };
  const source: ReplicaSource = {
    where: "imagined",
    address: async () => address,
    plan: () => ({ address, connectTimeoutMs: 1_000 }) as ReturnType<ReplicaSource["plan"]>,
    connect: async () => connection as unknown as Connection,
  };
  return {
    ...{ heard, source },
    send: (text: string) => sockets.at(-1)?.write(text),
    cut: () => sockets.at(-1)?.destroy(),
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function follow(source: ReplicaSource): Promise<PsyncFeed> {
  const options = {
    ...{ source, connectTimeoutMs: 1_000, silenceMs: 10_000 },
    spool: { dir: tmpdir(), memoryBytes: 1024 * 1024, diskBytes: 1024 * 1024 },
    signal: new AbortController().signal,
    onFault: () => {},
    onFailover: () => {},
  };
  return PsyncFeed.attach(options, { replid: REPLID, offset: 10, db: 0 });
}

const PING = "*1\r\n$4\r\nPING\r\n";

test("newlines of a master without its own master are no part of the stream, also after a cut", async () => {
  await using master = await imaginedMaster();
  const feed = await follow(master.source);
  try {
    expect(master.heard).toContain(`PSYNC ${REPLID} 11`);
    master.send(`\n\n${PING}\n`);
    expect(String(await feed.read())).toBe(PING);
    expect(feed.received).toBe(10 + PING.length);
    master.cut();
    await eventually(() => expect(master.heard).toContain(`PSYNC ${REPLID} ${11 + PING.length}`));
    // What follows may have waited at the source.
    expect(feed.behindUntil).toBe(100);
  } finally {
    await feed.close();
  }
});

test("the source is told what was applied, and not what was received", async () => {
  await using master = await imaginedMaster();
  const feed = await follow(master.source);
  try {
    master.send(`${PING}${PING}`);
    await eventually(() => expect(feed.received).toBe(10 + 2 * PING.length));
    feed.acknowledge(10 + PING.length);
    await eventually(() => expect(master.heard).toContain(`REPLCONF ACK ${10 + PING.length}`));
    expect(master.heard).not.toContain(`REPLCONF ACK ${10 + 2 * PING.length}`);
  } finally {
    await feed.close();
  }
});
