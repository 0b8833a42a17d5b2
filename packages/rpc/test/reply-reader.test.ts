import { connect } from "@ropeway/core";
import { eventually, startProxy } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { createClient } from "../src/index.ts";
import { JsonRpcKeys } from "../src/internal.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const keys = new JsonRpcKeys("t");

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

/** The reply list of a client, from a call that nobody serves. */
async function replyListOf(client: { call(target: string): Promise<unknown> }): Promise<string> {
  client.call("nobody.home").catch(() => {}); // it ends with its client
  const pushed = (await stage.server.command("BRPOP", keys.request("nobody"), "10")) as string[];
  return JSON.parse(pushed[1] as string).rt;
}

test("a reply list that is never empty keeps no answer under a key of its own from being found", async () => {
  const client = await stage.client({ replies: "list" });
  const replies = await replyListOf(client);
  const flood = ["LPUSH", replies, ...Array.from({ length: 600 }, () => "{}")];
  let going = true;
  const flooding = (async () => {
    while (going) {
      const waiting = Number(await stage.redis.send(flood));
      if (waiting > 5_000) await pause(1);
    }
  })();
  const ticket = await client.submit("demo.slow");
  const answer = client.poll(ticket, { waitMs: 5_000 });
  await pause(50);
  await stage.server.command(
    "LPUSH",
    keys.response("", ticket.split("/")[1] ?? ""),
    '{"result":7}',
  );
  const outcome = await answer;
  going = false;
  await flooding;
  expect(outcome).toEqual({ result: 7 });
});

test("answers lost by the second half of a plain pop are asked for again", async () => {
  await using proxy = await startProxy(stage.server);
  const far = stage.keep(await connect(proxy.url));
  await stage.serve({
    // Each in an event of its own, and so each an element of its own.
    later: async ([i]: [number]) => {
      await pause(50 + 2 * i);
      return i;
    },
  });
  const client = await createClient(far, { ns: "t", plainPop: true, replies: "list" });
  const replies = await replyListOf(client);
  await client.call("demo.later", [0]);
  proxy.delay(150);
  const numbers = Array.from({ length: 20 }, (_, i) => i);
  const calls = Promise.all(numbers.map((i) => client.call("demo.later", [i])));
  const left = () => stage.server.command("LLEN", replies);
  await eventually(async () => expect(await left()).toBe(19)); // BRPOP has got the first
  await eventually(async () => expect(await left()).toBe(0)); // RPOP has got the rest
  proxy.cut(); // before that is delivered
  await proxy.heal();
  await expect(calls).resolves.toEqual(numbers);
  await client.close();
});

/** The response of a call whose reply was popped and lost with the connection; `meanwhile` runs before it comes back. */
async function lostResponse(
  replies: "auto" | "keys" | "list",
  meanwhile: () => Promise<unknown>,
  heartbeatMs = 2_000,
) {
  await using proxy = await startProxy(stage.server);
  const far = stage.keep(await connect(proxy.url));
  let end = () => {};
  const wait = () =>
    new Promise<string>((resolve) => {
      end = () => resolve("done");
    });
  const worker = await stage.serve({ wait }, { heartbeatMs });
  const client = await createClient(far, { ns: "t", replies, timeoutMs: 20_000 });
  const call = client.call("demo.wait");
  await eventually(() => expect(worker.stats().running).toBe(1));
  await eventually(async () => {
    const clients = await stage.server.command("CLIENT", "LIST");
    expect(clients).toMatch(/name=\S*rpc-replies\S* .* flags=b /);
  });
  const before = await pushes();
  proxy.delay(150);
  end();
  await eventually(async () => expect(await pushes()).toBeGreaterThan(before));
  proxy.cut(); // before the answer, which is popped by now, is delivered
  await meanwhile();
  await proxy.heal();
  const response = await call;
  await client.close();
  return response;
}

test("an answer under its documented key that a cut connection lost is asked for again", async () => {
  expect(await lostResponse("keys", async () => {})).toBe("done");
});

test("a lost answer is asked for again until its worker is registered again", async () => {
  // After an outage a worker may register later than its callers come back.
  const forget = () => stage.server.command("DEL", keys.worksIndex("demo"));
  expect(await lostResponse("list", forget)).toBe("done");
});

test("a worker that an outage has removed from the registry is asked at once", async () => {
  const forget = () => stage.server.command("DEL", keys.worksIndex("demo"));
  expect(await lostResponse("auto", forget, 60_000)).toBe("done"); // it registers again too late
});

async function pushes(): Promise<number> {
  const stats = String(await stage.server.command("INFO", "commandstats"));
  return Number(/cmdstat_lpush:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}
