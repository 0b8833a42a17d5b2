import { existsSync } from "node:fs";
import { connect } from "node:net";
import { eventually, spawnScript } from "@ropeway/testkit";
import { expect, test } from "vitest";

function refused(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => resolve(false));
    socket.once("error", ({ message }) => resolve(message.includes("ECONNREFUSED")));
    socket.once("connect", () => socket.destroy());
  });
}

test.concurrent.each(["kill9", "terminate"] as const)(
  "no server and no folder survives a test process that ends by %s",
  async (end) => {
    await using script = await spawnScript(new URL("./orphans.fixture.ts", import.meta.url));
    const [, ports = "", folders = ""] = await script.waitForLine(/^started (\S+) (\S+)$/);
    const listening = ports.split(",").map(Number);
    expect(await Promise.all(listening.map(refused))).toEqual([false, false]);
    await script[end]();
    await eventually(async () => {
      expect(await Promise.all(listening.map(refused))).toEqual([true, true]);
    });
    await eventually(() => expect(folders.split(",").filter(existsSync)).toEqual([]));
  },
);
