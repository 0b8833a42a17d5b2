/** Every route, asked by every role: nobody gets in without the permission that the route declares. */
import { Cluster, openRedisStore } from "@ropeway/cluster";
import { MergeQueue } from "@ropeway/merge";
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Policy } from "../src/access/permission.ts";
import { Roles } from "../src/access/roles.ts";
import { Tokens } from "../src/access/tokens.ts";
import { Users } from "../src/access/users.ts";
import { assemble } from "../src/assembly.ts";
import {
  alertsPart,
  jobsPart,
  mergePart,
  nodesPart,
  type PortalPart,
  rpcPart,
  tasksPart,
} from "../src/index.ts";
import { resolvePortalOptions } from "../src/options.ts";
import { Stage } from "./stage.fixture.ts";

let stage: Stage;
let parts: PortalPart[] = [];
let policy: Policy;

beforeAll(async () => {
  stage = await Stage.open({
    partsOf(redis) {
      const cluster = new Cluster(openRedisStore(redis));
      parts = [
        mergePart(new MergeQueue(redis, { prefix: "{walk}" })),
        jobsPart(redis),
        rpcPart(redis),
        tasksPart(cluster),
        nodesPart(cluster),
        alertsPart(cluster),
      ];
      return parts;
    },
  });
  policy = assemble(stage.redis, resolvePortalOptions({ parts })).policy;
  for (const role of ["viewer", "operator"]) await stage.addAccount(role, role);
  await new Roles(openRedisStore(stage.redis)).create({
    name: "stopper",
    permissions: ["task:operate"],
    groups: ["team-a"],
  });
  await stage.addAccount("custom", "stopper");
});
afterAll(() => stage.close());

const STREAMS = /\/events$/;

test("every route is closed to nobody and open exactly to those with its permission", async () => {
  const headers = new Map(
    await Promise.all(
      ["admin", "operator", "viewer", "custom"].map(
        async (name) => [name, await stage.bearer(name)] as const,
      ),
    ),
  );
  const routes = stage.portal.routes.filter(({ permission }) => permission !== "public");
  expect(routes.length).toBeGreaterThan(40);
  for (const { method, url, permission } of routes) {
    if (method === "DELETE" && url === "/api/session") continue; // it would end our own session
    const path = url.replace(/:\w+/g, "none").replace("*", "none");
    const anonymous = await stage.ask(path, { method });
    expect([url, anonymous.status]).toEqual([url, 401]);
    await anonymous.text();
    for (const [name, header] of headers) {
      const custom = policy.coveredBy(["task:operate"]);
      const allowed =
        permission === "public" ||
        (name === "custom" ? custom.includes(permission) : policy.allows(name, permission));
      if (allowed && STREAMS.test(url)) continue; // would stay open
      const answer = await stage.ask(path, { method, headers: header });
      const shown = `${name} ${method} ${url}: ${answer.status}`;
      if (allowed) expect(shown).not.toMatch(/: 40[13]$/);
      else expect(shown).toMatch(/: 403$/);
      expect(answer.status, shown).not.toBe(500);
      await answer.text();
    }
  }
}, 120_000);

test("every route is closed to tokens that were revoked, have expired, or whose account is gone", async () => {
  const store = openRedisStore(stage.redis);
  const tokens = new Tokens(store);
  const users = new Users(store);
  const make = async (username: string, expiresAt: number | null) => {
    const account = await users.get(username);
    if (account === undefined) throw new Error(`no account ${username}`);
    const limits = { name: "walk", permissions: null, groups: null, expiresAt };
    return tokens.create({ account, ...limits });
  };
  const revoked = await make("admin", null);
  const expired = await make("admin", Date.now() + 1);
  await stage.addAccount("leaver", "admin");
  const orphaned = await make("leaver", null);
  await tokens.revoke(revoked.info.id);
  await users.remove("leaver");
  await eventually(async () => expect(await tokens.isLive(expired.info.id)).toBe(false));
  const routes = stage.portal.routes.filter(({ permission }) => permission !== "public");
  for (const { method, url } of routes) {
    const path = url.replace(/:\w+/g, "none").replace("*", "none");
    for (const [why, { token }] of Object.entries({ revoked, expired, orphaned })) {
      const headers = { authorization: `Bearer ${token}` };
      const answer = await stage.ask(path, { method, headers });
      expect([why, method, url, answer.status]).toEqual([why, method, url, 401]);
      await answer.text();
    }
  }
  await store.close();
}, 120_000);
