import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { needs, type PortalPart } from "../src/index.ts";
import { problemOf, Stage } from "./stage.fixture.ts";

test("a portal with its Redis is alive and ready", async () => {
  await using stage = await Stage.open();
  const health = await stage.ask("/healthz");
  expect(health.status).toBe(200);
  expect(await health.json()).toEqual({ status: "ok", version: expect.stringMatching(/^\d/) });
  const ready = await stage.ask("/readyz");
  expect(ready.status).toBe(200);
  expect(await ready.json()).toEqual({ ready: true, draining: false });
  const verbose = await stage.ask("/readyz?verbose");
  expect(await verbose.json()).toMatchObject({ probes: [{ name: "redis", ok: true }] });
  const brief = await (await stage.ask("/readyz?verbose=false")).json();
  expect(brief).not.toHaveProperty("probes");
  const wrong = await stage.ask("/readyz?verbose=maybe");
  expect(await problemOf(wrong)).toMatchObject({ errors: [{ pointer: "/query/verbose" }] });
});

test("without its Redis a portal is alive, not ready, and says 503; then it recovers by itself", async () => {
  await using stage = await Stage.open({ connect: { offlineWaitMs: 100 } });
  const headers = await stage.bearer();
  await stage.server.command("SAVE"); // what the next start finds
  await stage.server.kill9();
  await eventually(() => expect(stage.redis.connected).toBe(false));
  expect((await stage.ask("/healthz")).status).toBe(200);
  const notReady = await stage.ask("/readyz?verbose");
  expect(notReady.status).toBe(503);
  expect(await notReady.json()).toMatchObject({
    ready: false,
    probes: [
      {
        name: "redis",
        ok: false,
        code: expect.stringMatching(/^(NOT_CONNECTED|STORE_UNAVAILABLE)$/),
      },
    ],
  });
  for (const answer of [await stage.ask("/api/session", { headers }), await stage.login()]) {
    expect(answer.headers.get("retry-after")).toBe("1");
    const problem = await problemOf(answer);
    expect(problem).toMatchObject({
      status: 503,
      code: expect.stringMatching(/^(NOT_CONNECTED|STORE_UNAVAILABLE)$/),
    });
    expect(problem.detail).not.toContain(String(stage.server.port));
  }
  expect(await (await stage.ask("/metrics")).text()).toContain("ropeway_redis_connected 0");
  await stage.server.start();
  await eventually(async () => expect((await stage.ask("/readyz")).status).toBe(200));
  expect((await stage.ask("/api/session", { headers })).status).toBe(200);
  expect(await (await stage.ask("/metrics")).text()).toContain("ropeway_redis_connected 1");
});

test("a Redis that does not answer in time makes the portal not ready, and is asked only once", async () => {
  await using stage = await Stage.open({ readyWithinMs: 500 });
  const pings = async () => {
    const stats = String(await stage.server.command("INFO", "commandstats"));
    return Number(/cmdstat_ping:calls=(\d+)/.exec(stats)?.[1] ?? 0);
  };
  const before = await pings();
  stage.server.pause();
  const answers = await Promise.all([1, 2, 3, 4, 5].map(() => stage.ask("/readyz?verbose")));
  for (const answer of answers) {
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({ probes: [{ ok: false, code: "TIMEOUT" }] });
  }
  stage.server.resume();
  expect(await pings()).toBeLessThanOrEqual(before + 2);
  await eventually(async () => expect((await stage.ask("/readyz")).status).toBe(200));
});

test("a part's probe counts as well", async () => {
  let fine = false;
  const part: PortalPart = {
    name: "etcd",
    about: { en: "", zh: "" },
    probes: {
      etcd: async () => {
        if (!fine) throw new Error("secret address");
      },
    },
    routes: (app) => void app.get("/x", { config: needs("public") }, () => "x"),
  };
  await using stage = await Stage.open({ parts: [part] });
  const not = await stage.ask("/readyz?verbose");
  expect(not.status).toBe(503);
  const text = await not.text();
  expect(text).toContain('{"name":"etcd","ok":false,');
  expect(text).not.toContain("secret");
  fine = true;
  expect((await stage.ask("/readyz")).status).toBe(200);
});
