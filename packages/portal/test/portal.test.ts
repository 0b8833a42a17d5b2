import { once } from "node:events";
import { Agent, get, type IncomingMessage } from "node:http";
import { connect as connectTcp } from "node:net";
import { deferred } from "@ropeway/core/internal";
import { eventually, freePort } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeAll, expect, test } from "vitest";
import { AccessStore } from "../src/access/store.ts";
import { createPortal, needs, type PortalOptions, type PortalPart } from "../src/index.ts";
import { PortalKeys } from "../src/keys.ts";

const { server, redis } = await redisForFile();

beforeAll(async () => {
  await new AccessStore(redis, new PortalKeys("ropeway")).createFirstAdmin("admin", "-");
});

/** A route that answers when it is told to, and the way to tell it. */
function slowPart(): { part: PortalPart; asked: Promise<void>; answer: () => void } {
  const asked = deferred<void>();
  const told = deferred<string>();
  const part: PortalPart = {
    name: "slow",
    about: { en: "", zh: "" },
    routes(app) {
      app.get("/slow", { config: needs("public") }, () => {
        asked.resolve();
        return told.promise;
      });
    },
  };
  return { part, asked: asked.promise, answer: () => told.resolve("done") };
}

function ask(url: string, agent: Agent): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    get(url, { agent }, (answer: IncomingMessage) => {
      let text = "";
      answer.setEncoding("utf8").on("data", (chunk) => {
        text += chunk;
      });
      answer.on("end", () => resolve({ status: answer.statusCode ?? 0, text }));
    }).on("error", reject);
  });
}

test("a started portal answers on its URL, and no longer after close", async () => {
  const portal = createPortal(redis);
  expect(portal.url).toBeUndefined();
  expect(portal.routes).toEqual([]);
  const { url, firstAdmin } = await portal.start();
  expect(firstAdmin).toBeUndefined();
  expect(portal.url).toBe(url);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
  await Promise.all([portal.close(), portal.close()]);
  expect(portal.url).toBeUndefined();
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
  expect(await redis.send(["PING"])).toBe("PONG");
});

test("a portal starts once", async () => {
  const portal = createPortal(redis);
  const starting = portal.start();
  await expect(portal.start()).rejects.toMatchObject({ code: "PORTAL_STATE" });
  await starting;
  await portal.close();
  await expect(portal.start()).rejects.toThrow("it is closed already");
  const never = createPortal(redis);
  await never.close();
  await expect(never.start()).rejects.toMatchObject({ code: "PORTAL_STATE" });
});

test("close() during start() ends what was started", async () => {
  const portal = createPortal(redis);
  const starting = portal.start();
  await portal.close();
  const { url } = await starting;
  await expect(fetch(`${url}/healthz`)).rejects.toThrow();
});

test("a port that is taken is told before anyone could lose a password", async () => {
  const port = await freePort();
  await using first = createPortal(redis, { port });
  expect((await first.start()).url).toBe(`http://127.0.0.1:${port}`);
  const second = createPortal(redis, { port, prefix: "fresh" });
  await expect(second.start()).rejects.toMatchObject({
    code: "LISTEN_FAILED",
    message: expect.stringContaining(`cannot listen on 127.0.0.1:${port}: `),
    cause: { code: "EADDRINUSE" },
  });
  expect(await server.command("EXISTS", "fresh:{portal}:users")).toBe(0);
});

test("the URL can be opened also when the portal listens everywhere", async () => {
  await using portal = createPortal(redis, { host: "0.0.0.0" });
  const { url } = await portal.start();
  expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});

test("while it closes, a portal is not ready, takes no one new, and finishes what it began", async () => {
  const { part, asked, answer } = slowPart();
  const portal = createPortal(redis, { parts: [part], closeDelayMs: 1_500 });
  const { url } = await portal.start();
  const agent = new Agent({ keepAlive: true });
  const slow = ask(`${url}/slow`, agent);
  await asked;
  const closing = portal.close();
  // Balancers see it while everything still works.
  const ready = await ask(`${url}/readyz`, new Agent());
  expect(ready).toMatchObject({ status: 503, text: '{"ready":false,"draining":true}' });
  expect((await ask(`${url}/healthz`, agent)).status).toBe(200);
  await eventually(async () => {
    await expect(ask(`${url}/healthz`, new Agent())).rejects.toThrow("ECONNREFUSED");
  });
  answer();
  expect(await slow).toEqual({ status: 200, text: "done" });
  await closing;
  agent.destroy();
});

test("what does not finish within the bound is cut", async () => {
  const { part, asked, answer } = slowPart();
  const portal = createPortal(redis, { parts: [part], closeWithinMs: 50 });
  const { url } = await portal.start();
  const slow = ask(`${url}/slow`, new Agent());
  const failed = expect(slow).rejects.toThrow("socket hang up");
  await asked;
  await portal.close();
  await failed;
  answer();
});

test("connections that ask nothing do not hold up the close", async () => {
  const portal = createPortal(redis, { closeWithinMs: 600_000 });
  const { hostname, port } = new URL((await portal.start()).url);
  const silent = connectTcp(Number(port), hostname);
  const halfway = connectTcp(Number(port), hostname);
  const ended = Promise.all([silent, halfway].map((socket) => once(socket.resume(), "close")));
  await Promise.all([once(silent, "connect"), once(halfway, "connect")]);
  halfway.write("GET /healthz HTTP/1.1\r\nhost:");
  const agent = new Agent({ keepAlive: true });
  expect((await ask(`http://${hostname}:${port}/healthz`, agent)).status).toBe(200);
  await portal.close();
  await ended;
  agent.destroy();
});

test("parts are closed last, and one that fails to is told", async () => {
  const order: string[] = [];
  const part = (name: string, close: () => Promise<void>): PortalPart => {
    return { name, about: { en: "", zh: "" }, close };
  };
  const fine = part("fine", async () => void order.push("fine"));
  const failing = part("failing", async () => {
    order.push("failing");
    throw new Error("cannot close");
  });
  const portal = createPortal(redis, { parts: [failing, fine] });
  await portal.start();
  await expect(portal.close()).rejects.toThrow("cannot close");
  expect(order).toEqual(["failing", "fine"]);
});

test.each<[PortalOptions, string]>([
  [{ port: 70_000 }, "option port is 70000, but must be a whole number from 0 to 65535"],
  [{ host: "" }, "option host"],
  [{ prefix: "a{b" }, "option prefix"],
  [{ bodyLimit: 0 }, "option bodyLimit"],
  [{ adminUsername: "no spaces" }, "option adminUsername"],
  [{ adminPassword: 12345678 as unknown as string }, 'option adminPassword is "***"'],
  [{ trustProxy: 1 as unknown as boolean }, "option trustProxy"],
  [{ trustProxy: "somewhere" }, 'option trustProxy is "somewhere"'],
  [{ trustProxy: "10.0.0.0/33" }, "option trustProxy"],
  [{ parts: [{ name: "a" }, { name: "a" }] as PortalPart[] }, "option parts"],
  [{ parts: [{ name: "session" }] as PortalPart[] }, "option parts"],
  [{ logger: {} as PortalOptions["logger"] & object }, "option logger"],
  [{ prot: 1 } as PortalOptions, "did you mean port?"],
])("the option %o is refused by name", (options, message) => {
  expect(() => createPortal(redis, options)).toThrow(message);
});
