import { eventually, spawnScript } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { RpcServer } from "../src/index.ts";
import { leases } from "../src/keys.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const NODE = new URL("./node.fixture.ts", import.meta.url);

test("with default options a call of a killed worker is run elsewhere within its default timeout", async () => {
  await using doomed = await spawnScript(NODE, {
    args: [stage.server.url, "n1", "atLeastOnce", "default"],
  });
  await doomed.waitForLine(/^ready/);
  const client = await stage.client();
  const call = client.call("demo.hang", [7]);
  await doomed.waitForLine(/^began 7/);
  await stage.serve({ hang: ([n]: [number]) => `n2 ${n}` }, { atLeastOnce: true });
  await doomed.kill9();
  await expect(call).resolves.toBe("n2 7");
}, 20_000);

test("services of one worker share its slots", async () => {
  let running = 0;
  let most = 0;
  const work = async () => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 5));
    running -= 1;
  };
  const server = new RpcServer(stage.redis, { ns: "t", atLeastOnce: true, concurrency: 3 });
  for (const name of ["a", "b", "c", "d"]) server.add(name, { work });
  stage.keep(await server.start());
  const client = await stage.client();
  const calls = ["a", "b", "c", "d"].flatMap((name) =>
    Array.from({ length: 25 }, () => client.call(`${name}.work`)),
  );
  await Promise.all(calls);
  expect(most).toBeLessThanOrEqual(3);
});

test("the calls of a living worker are not reclaimed, however long they run", async () => {
  let runs = 0;
  let end = () => {};
  const options = { atLeastOnce: true, heartbeatMs: 1_000 };
  const slow = async () => {
    runs += 1;
    await new Promise<void>((resolve) => {
      end = resolve;
    });
    return "done";
  };
  await stage.serve({ slow }, { ...options, node: "n1" });
  const client = await stage.client();
  const call = client.call("demo.slow");
  await eventually(() => expect(runs).toBe(1));
  const set = leases("/api/t/request/demo");
  const [, first] = (await stage.server.command("ZRANGE", set, "0", "0", "WITHSCORES")) as string[];
  await stage.serve({ slow }, { ...options, node: "n2" });
  const valid = ["ZCOUNT", set, String(Number(first) + 4_000), "+inf"] as const;
  await eventually(async () => expect(await stage.server.command(...valid)).toBe(2), {
    withinMs: 15_000, // until both were renewed past the first lease and the next look for dead workers
  });
  expect(runs).toBe(1);
  end();
  await expect(call).resolves.toBe("done");
});
