/** What can still be removed while Redis has no memory left, and that the audit log knows it. */
import { Cluster, openRedisStore, SecretBox } from "@ropeway/cluster";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AuditLog } from "../src/access/audit-log.ts";
import { tasksPart } from "../src/index.ts";
import { Stage } from "./stage.fixture.ts";

let stage: Stage;

beforeAll(async () => {
  stage = await Stage.open({
    partsOf: (redis) => [
      tasksPart(new Cluster(openRedisStore(redis), { secrets: new SecretBox("44".repeat(32)) })),
    ],
  });
});
afterAll(() => stage.close());

test("tasks, accounts, roles and tokens can be removed while Redis is out of memory", async () => {
  const admin = await stage.bearer();
  const make = async (path: string, body: object) => {
    const response = await stage.ask(path, { method: "POST", headers: admin, body });
    expect(response.status).toBe(201);
    return (await response.json()) as { readonly id: string; readonly token: string };
  };
  const { id: task } = await make("/api/tasks", { name: "old", type: "scripted", config: {} });
  await make("/api/users", { username: "ann", role: "viewer" });
  await make("/api/roles", { name: "team", permissions: ["task:view"] });
  const { id: token } = await make("/api/tokens", { name: "unused" });
  const fresh = await make("/api/tokens", { name: "used for the first time" });

  await stage.server.command("CONFIG", "SET", "maxmemory", "1");
  const removals = ["users/ann", "roles/team", `tokens/${token}`].map((path) => `/api/${path}`);
  for (const path of removals) {
    const removed = await stage.ask(path, { method: "DELETE", headers: admin });
    expect([path, removed.status]).toEqual([path, 204]);
  }
  const bearer = { authorization: `Bearer ${fresh.token}` };
  const path = `/api/tasks/${task}`;
  expect((await stage.ask(path, { method: "DELETE", headers: bearer })).status).toBe(204);
  const body = { name: "new", permissions: ["task:view"] };
  const refused = await stage.ask("/api/roles", { method: "POST", headers: admin, body });
  expect([refused.status, await refused.json()]).toMatchObject([503, { code: "OUT_OF_MEMORY" }]);

  await stage.server.command("CONFIG", "SET", "maxmemory", "0");
  const { items } = await new AuditLog(openRedisStore(stage.redis)).list({ limit: 5 });
  expect(items.map(({ path: noted, outcome }) => [noted, outcome])).toEqual([
    ["/api/roles", "started"],
    [path, "done"],
    ...[...removals].reverse().map((removal) => [removal, "done"]),
  ]);
});
