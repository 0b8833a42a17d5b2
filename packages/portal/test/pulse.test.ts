// A Redis that hangs keeps its connections open: what waits for it must not wait with it.
import { encodeService, MergeQueue } from "@ropeway/merge";
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { MergeServer, needs } from "../src/index.ts";
import { Stage } from "./stage.fixture.ts";

interface Line {
  readonly level: string;
  readonly message: string;
}

function memory() {
  const lines: Line[] = [];
  const at = (level: string) => (_fields: object, message?: string) => {
    lines.push({ level, message: message ?? "" });
  };
  const logger = { debug: at("debug"), info: at("info"), warn: at("warn"), error: at("error") };
  return {
    lines,
    logger,
    count: (text: string) => lines.filter((one) => one.message.includes(text)).length,
  };
}

test("requests to a portal whose Redis hangs are answered with 503, and with 200 when it is back", async () => {
  const { logger, lines, count } = memory();
  await using stage = await Stage.open({
    logger,
    redisSilenceMs: 300,
    // Core itself would notice after an hour.
    connect: { heartbeatMs: 3_600_000, deadAfterMs: 3_600_000 },
    parts: [
      {
        name: "free",
        about: { en: "Needs no Redis.", zh: "-" },
        routes(app) {
          app.get("/test/free", { config: needs("public") }, async () => ({ fine: true }));
        },
      },
    ],
  });
  const headers = await stage.bearer();
  expect((await stage.ask("/api/users", { headers })).status).toBe(200);
  stage.server.pause();
  const answers = await Promise.all([
    stage.ask("/api/users", { headers }),
    stage.ask("/api/session", { headers }),
    stage.login(),
    stage.ask("/api/roles", {
      method: "POST",
      headers,
      body: { name: "late", permissions: ["user:view"] },
    }),
  ]);
  for (const answer of answers) {
    expect(answer.status).toBe(503);
    expect(answer.headers.get("content-type")).toMatch(/^application\/problem\+json/);
    expect(answer.headers.get("retry-after")).toBe("1");
    expect(await answer.json()).toMatchObject({ code: "CONNECTION_LOST" });
  }
  // What comes now is answered too, and what needs no Redis as ever.
  for (let n = 0; n < 5; n++) {
    expect((await stage.ask("/api/users", { headers })).status).toBe(503);
  }
  expect((await stage.ask("/test/free")).status).toBe(200);
  expect((await stage.ask("/healthz")).status).toBe(200);
  const readiness = await stage.ask("/readyz?verbose");
  expect(readiness.status).toBe(503);
  expect(await readiness.json()).toMatchObject({
    ready: false,
    probes: [{ name: "redis", ok: false, code: "TIMEOUT" }],
  });
  expect(count("Redis does not answer")).toBe(1);
  expect(lines.filter(({ level }) => level === "error")).toHaveLength(1);
  stage.server.resume();
  await eventually(async () => expect(count("Redis answers again")).toBe(1));
  expect((await stage.ask("/api/users", { headers })).status).toBe(200);
  expect((await stage.ask("/readyz")).status).toBe(200);
});

test("pushes to a merge server whose Redis hangs are answered with 503", async () => {
  const { logger, count } = memory();
  await using stage = await Stage.open({
    connect: { heartbeatMs: 3_600_000, deadAfterMs: 3_600_000 },
  });
  const options = { port: 0, logger, redisSilenceMs: 300, allow: ["loopback"] };
  await using server = await new MergeServer(new MergeQueue(stage.redis), options).start();
  const place = `${server.url}/v3/queue/key/POST/${encodeService("http://127.0.0.1:9/x")}?ontime=4000000000`;
  const push = () => fetch(place, { method: "POST", body: "1" });
  expect((await push()).status).toBe(202);
  stage.server.pause();
  for (let n = 0; n < 3; n++) expect((await push()).status).toBe(503);
  expect(count("Redis does not answer")).toBe(1);
  expect(count("a push failed")).toBe(0);
  stage.server.resume();
  await eventually(async () => expect((await push()).status).toBe(202));
});
