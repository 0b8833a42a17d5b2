import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { createPortal, needs, type PortalApp, type PortalPart } from "../src/index.ts";

const { redis } = await redisForFile();

const part = (routes: (app: PortalApp) => void): PortalPart => {
  const permissions = { "thing:view": { least: "viewer", means: "See things." } } as const;
  return { name: "test", about: { en: "", zh: "" }, permissions, routes };
};

const adminPassword = "correct horse battery";

test("every route says who may use it: public only where it is meant to be", async () => {
  await using portal = createPortal(redis, { adminPassword });
  const { url } = await portal.start();
  const open = portal.routes.filter(({ permission }) => permission === "public");
  expect(open.map(({ method, url: path }) => `${method} ${path}`).sort()).toEqual([
    "GET /",
    "GET /docs",
    "GET /healthz",
    "GET /metrics",
    "GET /openapi.json",
    "GET /readyz",
    "POST /api/session",
  ]);
  const guarded = portal.routes.filter(({ permission }) => permission !== "public");
  expect(guarded.length).toBeGreaterThan(2);
  for (const { method, url: path } of guarded) {
    const answer = await fetch(`${url}${path.replace(/:\w+/g, "x")}`, { method });
    expect(`${method} ${path} ${answer.status}`).toBe(`${method} ${path} 401`);
  }
});

test("a route that does not say who may use it stops the portal from starting", async () => {
  const portal = createPortal(redis, { parts: [part((app) => void app.get("/x", () => "x"))] });
  await expect(portal.start()).rejects.toMatchObject({
    code: "ROUTE_PERMISSION",
    message: "GET /x declares no permission; say needs(...) in its config",
  });
});

test("a route that asks for a permission nobody declared stops it as well", async () => {
  const routes = (app: PortalApp) => void app.get("/x", { config: needs("thing:veiw") }, () => "x");
  const portal = createPortal(redis, { parts: [part(routes)] });
  await expect(portal.start()).rejects.toThrow(
    "GET /x asks for thing:veiw, which no part declares",
  );
});

test("a route added by a plugin inside a part is held to the same rule", async () => {
  const routes = (app: PortalApp) => {
    void app.register(async (scope) => void scope.post("/inner", () => "x"));
  };
  const portal = createPortal(redis, { parts: [part(routes)] });
  await expect(portal.start()).rejects.toThrow("POST /inner declares no permission");
});

test("what one part hooks in does not touch another", async () => {
  const loud = part((app) => {
    app.addHook("onSend", async (_request, reply) => void reply.header("x-loud", "1"));
    app.get("/loud", { config: needs("public") }, () => "x");
  });
  await using portal = createPortal(redis, { parts: [loud] });
  const { url } = await portal.start();
  expect((await fetch(`${url}/loud`)).headers.get("x-loud")).toBe("1");
  expect((await fetch(`${url}/healthz`)).headers.get("x-loud")).toBeNull();
});
