import { startReplicaPair } from "@ropeway/testkit";
import { expect, test } from "vitest";

test.concurrent("a replica has what its master has, also after its own restart", async () => {
  await using pair = await startReplicaPair({ password: "both" });
  await pair.master.command("SET", "a", "1");
  await pair.caughtUp();
  await expect(pair.replica.command("GET", "a")).resolves.toBe("1");
  await expect(pair.replica.command("SET", "a", "2")).rejects.toMatchObject({ code: "READONLY" });
  await pair.replica.restart();
  await pair.master.command("SET", "a", "3");
  await pair.caughtUp();
  await expect(pair.replica.command("GET", "a")).resolves.toBe("3");
});

test.concurrent("promote swaps the two, also when the master is dead", async () => {
  await using pair = await startReplicaPair();
  const { master, replica } = pair;
  await pair.promote();
  expect([pair.master, pair.replica]).toEqual([replica, master]);
  await replica.command("SET", "b", "1");
  await pair.caughtUp();
  await expect(master.command("GET", "b")).resolves.toBe("1");
  await replica.kill9();
  await pair.promote();
  await expect(pair.master.command("SET", "b", "2")).resolves.toBe("OK");
});
