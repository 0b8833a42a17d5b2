import { eventually } from "@ropeway/testkit";
import { Counter } from "prom-client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { needs, type PortalPart } from "../src/index.ts";
import { Stage } from "./stage.fixture.ts";

const part: PortalPart = {
  name: "demo",
  about: { en: "", zh: "" },
  metrics(registry) {
    new Counter({ name: "demo_total", help: "Demo.", registers: [registry] }).inc(3);
  },
  routes(app) {
    app.get("/demo/:id", { config: needs("public") }, () => "ok");
    app.get("/slow", { config: needs("public") }, () => new Promise(() => {}));
  },
};

let stage: Stage;

beforeAll(async () => {
  stage = await Stage.open({ parts: [part], closeWithinMs: 0 });
});

afterAll(() => stage.close());

const scrape = async (of: Stage = stage) => (await of.ask("/metrics")).text();

test("requests are counted by route template, method and status, never by path", async () => {
  for (const id of ["a", "b", "c"]) await stage.ask(`/demo/${id}`);
  await stage.ask("/no/such/path");
  await stage.ask("/demo/a", { method: "POST" });
  const counted = (method: string, route: string, status: number) =>
    `ropeway_http_request_duration_seconds_count{method="${method}",route="${route}",status="${status}"}`;
  await eventually(async () => {
    const text = await scrape();
    expect(text).toContain(`${counted("GET", "/demo/:id", 200)} 3`);
    expect(text).toContain(`${counted("GET", "unknown", 404)} 1`);
    expect(text).toContain(`${counted("POST", "/demo/:id", 405)} 1`);
    expect(text).not.toContain("/demo/a");
    expect(text).not.toContain("/no/such");
  });
});

test("a client that gives up is counted as 499, and no request stays in flight", async () => {
  const abort = new AbortController();
  const waiting = stage.ask("/slow", { signal: abort.signal });
  await eventually(async () => expect(await scrape()).toContain("requests_in_flight 2"));
  abort.abort();
  await expect(waiting).rejects.toThrow();
  await eventually(async () => {
    const text = await scrape();
    expect(text).toContain("ropeway_http_requests_in_flight 1"); // the scrape itself
    expect(text).toContain('route="/slow",status="499"} 1');
  });
});

test("the process, Redis, logins and what parts add are there", async () => {
  await stage.login({ password: "wrong password" });
  await stage.login();
  const text = await scrape();
  for (const line of [
    "ropeway_redis_connected 1",
    'ropeway_logins_total{outcome="passed"} 1',
    'ropeway_logins_total{outcome="failed"} 1',
    'ropeway_logins_total{outcome="throttled"} 0',
    "ropeway_event_streams 0",
    "demo_total 3",
  ]) {
    expect(text).toContain(line);
  }
  expect(text).toMatch(/^ropeway_build_info\{version="[\d.]+"\} 1$/m);
  expect(text).toMatch(/^process_resident_memory_bytes \d+$/m);
  expect(text).toMatch(/^nodejs_eventloop_lag_p99_seconds /m);
});

test("two portals of one process count apart, and each may ask for a permission", async () => {
  await using other = await Stage.open({ publicMetrics: false });
  expect((await other.ask("/metrics")).status).toBe(401);
  const answer = await other.ask("/metrics", { headers: await other.bearer() });
  expect(answer.headers.get("content-type")).toContain("text/plain; version=0.0.4");
  const text = await answer.text();
  expect(text).not.toContain("/demo/:id");
  expect(text.match(/^# HELP process_cpu_seconds_total/gm)).toHaveLength(1);
});
