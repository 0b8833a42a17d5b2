/** Tasks, tokens, roles and the audit log over HTTP. */
import {
  Alerts,
  Cluster,
  ClusterNode,
  openRedisStore,
  SecretBox,
  scriptedRunner,
} from "@ropeway/cluster";
import { silentLogger } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { alertsPart, nodesPart, tasksPart } from "../src/index.ts";
import { problemOf, Stage } from "./stage.fixture.ts";

const secrets = new SecretBox("33".repeat(32));
let stage: Stage;
let admin: { authorization: string };
let node: ClusterNode;

beforeAll(async () => {
  stage = await Stage.open({
    partsOf(redis) {
      const shared = openRedisStore(redis);
      closing.push(() => shared.close());
      const cluster = new Cluster(shared, { secrets });
      return [tasksPart(cluster), nodesPart(cluster), alertsPart(cluster)];
    },
  });
  admin = await stage.bearer();
  const store = openRedisStore(stage.redis);
  node = await new ClusterNode(store, {
    id: "node_http",
    address: "http://127.0.0.1:9",
    runners: [scriptedRunner()],
    secrets,
    reportMs: 200,
    progressMs: 100,
  }).start();
  closing.push(
    () => node.close(),
    () => store.close(),
  );
});
const closing: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const close of closing) await close();
  await stage.close();
});

interface View {
  readonly id: string;
  readonly name: string;
  readonly status: string;
  readonly group: string;
}

const post = (path: string, body?: object, headers: Record<string, string> = admin) =>
  stage.ask(path, { method: "POST", headers: { ...headers }, ...(body && { body }) });
const get = async <T>(path: string, headers: Record<string, string> = admin) =>
  (await (await stage.ask(path, { headers })).json()) as T;
let count = 0;
const task = (more: object = {}) => ({
  name: `http ${++count}`,
  type: "scripted",
  config: {},
  ...more,
});
const becomes = (id: string, status: string) =>
  eventually(async () => expect((await get<View>(`/api/tasks/${id}`)).status).toBe(status));

test("a task is created, started, stopped and removed", async () => {
  const created = await post("/api/tasks", task({ start: true, group: "g" }));
  expect(created.status).toBe(201);
  const { id } = (await created.json()) as View;
  await becomes(id, "COMMANDRUNNING");
  const again = await problemOf(await post(`/api/tasks/${id}/start`));
  expect(again).toMatchObject({ status: 409, code: "ILLEGAL_TRANSITION" });
  expect(again.detail).toMatch(/COMMANDRUNNING.*STARTING/);
  expect((await post(`/api/tasks/${id}/stop`)).status).toBe(200);
  await becomes(id, "STOP");
  const gone = await stage.ask(`/api/tasks/${id}`, { method: "DELETE", headers: admin });
  expect(gone.status).toBe(204);
  expect(await problemOf(await stage.ask(`/api/tasks/${id}`, { headers: admin }))).toMatchObject({
    status: 404,
    code: "UNKNOWN_TASK",
  });
});

test("bad bodies name the field, duplicates are 409, and a repeated request is the first one", async () => {
  for (const [body, pointer] of [
    [task({ config: { runMs: -1 } }), "/body/config/runMs"],
    [task({ config: 7 }), "/body/config"],
    [{ type: "scripted", config: {} }, "/body/name"],
    [task({ immortal: "yes" }), "/body/immortal"],
  ] as const) {
    const problem = await problemOf(await post("/api/tasks", body));
    expect(problem.status).toBe(400);
    expect(problem.errors?.map((fault) => fault.pointer)).toContain(pointer);
  }
  const body = task();
  const keyed = { ...admin, "idempotency-key": "once" };
  const [first, second] = await Promise.all([
    post("/api/tasks", body, keyed),
    post("/api/tasks", body, keyed),
  ]);
  expect([first.status, second.status].sort()).toEqual([200, 201]);
  expect(((await first.json()) as View).id).toBe(((await second.json()) as View).id);
  expect((await post("/api/tasks", task(), keyed)).status).toBe(422);
  expect(await problemOf(await post("/api/tasks", body))).toMatchObject({
    status: 409,
    code: "DUPLICATE_TASK",
  });
});

test("a password in a configuration is never seen again", async () => {
  const body = task({ config: { target: "redis://user:top-secret@127.0.0.1:1" } });
  const created = await (await post("/api/tasks", body)).text();
  expect(created).toContain("redis://user@127.0.0.1:1");
  const { id } = JSON.parse(created) as View;
  const shown = await (await stage.ask(`/api/tasks/${id}`, { headers: admin })).text();
  expect(created + shown).not.toContain("top-secret");
  const keys = (await stage.server.command("KEYS", "*/tasks/*")) as string[];
  for (const key of keys) {
    expect(String(await stage.server.command("GET", key))).not.toContain("top-secret");
  }
});

test("an API token can do what it is limited to, until it is revoked or expires", async () => {
  const made = await post("/api/tokens", { name: "ci", permissions: ["task:view"] });
  expect(made.status).toBe(201);
  const { token, id } = (await made.json()) as { token: string; id: string };
  const bearer = { authorization: `Bearer ${token}` };
  expect((await stage.ask("/api/tasks", { headers: bearer })).status).toBe(200);
  expect((await post("/api/tasks", task(), bearer)).status).toBe(403);
  expect((await stage.ask("/api/users", { headers: bearer })).status).toBe(403);
  expect((await post("/api/tokens", { name: "more" }, bearer)).status).toBe(403);
  const stored = String(await stage.server.command("GET", `ropeway:store:/tasks/token/${id}`));
  const secret = token.slice(`rwt_${id}_`.length); // ids and secrets may contain "_" themselves
  expect(secret.length).toBeGreaterThan(20);
  expect(stored).not.toContain(secret);
  const revoked = await stage.ask(`/api/tokens/${id}`, { method: "DELETE", headers: admin });
  expect(revoked.status).toBe(204);
  expect((await stage.ask("/api/tasks", { headers: bearer })).status).toBe(401);
  const short = await post("/api/tokens", { name: "short", expiresInDays: 0.000_001 });
  const expiring = { authorization: `Bearer ${((await short.json()) as { token: string }).token}` };
  await eventually(async () =>
    expect((await stage.ask("/api/tasks", { headers: expiring })).status).toBe(401),
  );
});

test("a role with groups sees and touches only its tasks", async () => {
  const role = { name: "team-a", permissions: ["task:operate", "task:edit"], groups: ["a"] };
  expect((await post("/api/roles", role)).status).toBe(201);
  const user = { username: "anna", role: "team-a" };
  const made = (await (await post("/api/users", user)).json()) as { password: string };
  const basic = Buffer.from(`anna:${made.password}`).toString("base64");
  const anna = { authorization: `Basic ${basic}` };
  const mine = (await (await post("/api/tasks", task({ group: "a" }), anna)).json()) as View;
  const other = (await (await post("/api/tasks", task({ group: "b" }))).json()) as View;
  expect((await post("/api/tasks", task({ group: "b" }), anna)).status).toBe(403);
  expect((await post("/api/tasks", task(), anna)).status).toBe(403);
  const seen = await get<{ items: View[] }>("/api/tasks?limit=500", anna);
  expect(seen.items.map(({ id }) => id)).toEqual([mine.id]);
  expect((await stage.ask(`/api/tasks/${other.id}`, { headers: anna })).status).toBe(404);
  for (const [method, path, body] of [
    ["PATCH", "", { immortal: true }],
    ["DELETE", ""],
    ["POST", "/start"],
    ["POST", "/stop"],
    ["POST", "/move", { node: "node_http" }],
    ["GET", "/events"],
    ["GET", "/offset"],
    ["GET", "/bigkeys"],
    ["GET", "/discarded"],
  ] as const) {
    const answer = await stage.ask(`/api/tasks/${other.id}${path}`, {
      ...{ method, headers: anna, body },
    });
    expect([method, path, answer.status]).toEqual([method, path, 404]);
  }
  const elsewhere = { method: "PATCH", headers: anna, body: { group: "b" } };
  expect((await stage.ask(`/api/tasks/${mine.id}`, elsewhere)).status).toBe(403);
  // A name that is taken is refused without the id of a task that they may not see.
  const taken = task({ group: "a", name: other.name });
  const renamed = { method: "PATCH", headers: anna, body: { name: other.name } };
  for (const answer of [
    await post("/api/tasks", taken, anna),
    await stage.ask(`/api/tasks/${mine.id}`, renamed),
  ]) {
    const problem = await problemOf(answer);
    expect(problem).toMatchObject({ status: 409, code: "DUPLICATE_TASK" });
    expect(JSON.stringify(problem)).not.toContain(other.id);
  }
  const own = await problemOf(await post("/api/tasks", { ...taken, name: mine.name }, anna));
  expect(own.detail).toContain(mine.id);
  expect((await stage.ask("/api/roles/team-a", { method: "DELETE", headers: admin })).status).toBe(
    409,
  );
  expect((await stage.ask("/api/users/anna", { method: "DELETE", headers: admin })).status).toBe(
    204,
  );
  expect((await stage.ask("/api/tasks", { headers: anna })).status).toBe(401);
  expect((await stage.ask("/api/roles/team-a", { method: "DELETE", headers: admin })).status).toBe(
    204,
  );
  const last = await stage.ask("/api/users/admin", { method: "DELETE", headers: admin });
  expect(await problemOf(last)).toMatchObject({ status: 409, code: "PROTECTED" });
});

test("the audit log has every change with who, what, from where and how it ended, page by page", async () => {
  const name = `audited ${Date.now()}`;
  const made = (await (await post("/api/tasks", task({ name }))).json()) as View;
  await post(`/api/tasks/${made.id}/stop`);
  await stage.login({ password: "wrong password" });
  await eventually(async () => {
    const { items } = await get<{ items: Record<string, unknown>[] }>("/api/audit?limit=10");
    expect(items).toContainEqual(
      expect.objectContaining({
        actor: "admin",
        action: "POST /api/tasks/:id/stop",
        path: `/api/tasks/${made.id}/stop`,
        outcome: "done",
        status: 200,
        from: expect.stringContaining("127.0.0.1"),
      }),
    );
    expect(items).toContainEqual(
      expect.objectContaining({ action: "POST /api/session", outcome: "refused", status: 401 }),
    );
  });
  const seen: string[] = [];
  for (let cursor = ""; ; ) {
    const page = await get<{ items: { id: string }[]; cursor: string | null }>(
      `/api/audit?limit=3${cursor && `&cursor=${cursor}`}`,
    );
    seen.push(...page.items.map(({ id }) => id));
    if (page.cursor === null) break;
    cursor = page.cursor;
  }
  expect(new Set(seen).size).toBe(seen.length);
  expect(seen).toEqual([...seen].sort());
});

test("a task's life is a stream that goes on where it was left", async () => {
  const { id } = (await (await post("/api/tasks", task())).json()) as View;
  const read = async (headers: Record<string, string>, until: RegExp) => {
    const abort = new AbortController();
    const answer = await stage.ask(`/api/tasks/${id}/events`, { headers, signal: abort.signal });
    let text = "";
    for await (const chunk of answer.body ?? []) {
      text += Buffer.from(chunk as Uint8Array).toString();
      if (until.test(text)) break;
    }
    abort.abort();
    return text;
  };
  const first = await read(admin, /event: task\n/);
  expect(first).toContain('"event":"created"');
  const lastId = [...first.matchAll(/^id: (\d+)$/gm)].at(-1)?.[1] ?? "";
  await post(`/api/tasks/${id}/start`);
  await becomes(id, "COMMANDRUNNING");
  const second = await read({ ...admin, "last-event-id": lastId }, /COMMANDRUNNING/);
  expect(second).toMatch(/"status":"CREATING".*"status":"STARTING"/s);
  expect(second).not.toContain('"event":"created"');
  await post(`/api/tasks/${id}/stop`);
  await becomes(id, "STOP");
});

test("a stream whose history is gone says so and goes on with the present task", async () => {
  const { id } = (await (await post("/api/tasks", task())).json()) as View;
  await stage.server.command("XTRIM", "ropeway:store:@log", "MAXLEN", 0);
  const abort = new AbortController();
  const headers = { ...admin, "last-event-id": "1" };
  const answer = await stage.ask(`/api/tasks/${id}/events`, { headers, signal: abort.signal });
  let text = "";
  for await (const chunk of answer.body ?? []) {
    text += Buffer.from(chunk as Uint8Array).toString();
    if (/event: task\n/.test(text)) break;
  }
  abort.abort();
  expect(text).toMatch(/event: reset\n.*event: task\n/s);
});

test("a stream of a task ends when the task leaves the groups that its reader may see", async () => {
  await post("/api/roles", { name: "team-s", permissions: ["task:view"], groups: ["s"] });
  await stage.addAccount("sara", "team-s");
  const sara = await stage.bearer("sara");
  const { id } = (await (await post("/api/tasks", task({ group: "s" }))).json()) as View;
  const answer = await fetch(`${stage.url}/api/tasks/${id}/events`, { headers: sara });
  expect(answer.status).toBe(200);
  const edit = { group: "elsewhere", name: "a name for others" };
  const edited = await stage.ask(`/api/tasks/${id}`, {
    method: "PATCH",
    headers: admin,
    body: edit,
  });
  expect(edited.status).toBe(200);
  const seen = await answer.text(); // ends by itself
  expect(seen).toContain("event: removed");
  expect(seen).not.toContain(edit.name);
  expect((await stage.ask(`/api/tasks/${id}`, { headers: sara })).status).toBe(404);
});

test("a token with groups sees and acknowledges only the alerts of its groups", async () => {
  const store = openRedisStore(stage.redis);
  const alerts = new Alerts({ store, sinks: [], logger: silentLogger });
  for (const group of ["q", "r", ""]) {
    const cause = `of group ${group}`;
    await alerts.raise({ kind: "task-broken", cause, text: cause, subject: "task", group });
  }
  const { items: all } = await alerts.list();
  const made = await post("/api/tokens", { name: "group q", groups: ["q"] });
  const { token } = (await made.json()) as { token: string };
  const limited = { authorization: `Bearer ${token}` };
  const { items } = await get<{ items: View[] }>("/api/alerts", limited);
  expect(items.map(({ id }) => all.find((alert) => alert.id === id)?.group)).toEqual(["q"]);
  for (const { id, group } of all) {
    const { status } = await post(`/api/alerts/${id}/ack`, undefined, limited);
    expect([group, status]).toEqual([group, group === "q" ? 200 : 404]);
    expect((await alerts.get(id)).acknowledgedAt === null).toBe(group !== "q");
    await alerts.resolve(`of group ${group}`);
  }
  await store.close();
});

test("a token whose groups are none of its owner's sees no task at all", async () => {
  await post("/api/roles", { name: "team-o", permissions: ["task:view"], groups: ["o"] });
  await stage.addAccount("olga", "team-o");
  const { id } = (await (await post("/api/tasks", task({ group: "o" }))).json()) as View;
  const olga = await stage.bearer("olga");
  const made = await post("/api/tokens", { name: "elsewhere", groups: ["p"] }, olga);
  const { token } = (await made.json()) as { token: string };
  const headers = { authorization: `Bearer ${token}` };
  expect((await get<{ items: View[] }>("/api/tasks", olga)).items).toHaveLength(1);
  expect((await get<{ items: View[] }>("/api/tasks", headers)).items).toEqual([]);
  expect((await stage.ask(`/api/tasks/${id}`, { headers })).status).toBe(404);
});

test("creating a task does not start it without the permission to start tasks", async () => {
  await post("/api/roles", { name: "author", permissions: ["task:edit"] });
  await stage.addAccount("aron", "author");
  const aron = await stage.bearer("aron");
  const refused = await problemOf(await post("/api/tasks", task({ start: true }), aron));
  expect(refused).toMatchObject({ status: 403, detail: expect.stringContaining("task:operate") });
  expect((await post("/api/tasks", task({ start: false }), aron)).status).toBe(201);
});

test("an action that the status does not allow is a 409 that names both states", async () => {
  const { id } = (await (await post("/api/tasks", task({ start: true }))).json()) as View;
  await becomes(id, "COMMANDRUNNING");
  const refused = async (action: string, states: [string, string], body?: object) => {
    const [method = "", path = ""] = action.split(" ");
    const init = { method, headers: admin, ...(body && { body }) };
    const problem = await problemOf(await stage.ask(`/api/tasks/${id}${path}`, init));
    expect(problem).toMatchObject({ status: 409, code: "ILLEGAL_TRANSITION" });
    for (const state of states) expect(problem.detail).toContain(state);
  };
  await refused("POST /start", ["COMMANDRUNNING", "STARTING"]);
  await refused("PATCH", ["COMMANDRUNNING", "edited"], { name: "renamed" });
  await refused("DELETE", ["COMMANDRUNNING", "removed"]);
  await post(`/api/tasks/${id}/stop`);
  await becomes(id, "STOP");
  await refused("POST /stop", ["STOP", "STOP"]);
  const fails = task({ start: true, config: { failAfterMs: 1 } });
  const broken = (await (await post("/api/tasks", fails)).json()) as View;
  await becomes(broken.id, "BROKEN");
  const again = await problemOf(await post(`/api/tasks/${broken.id}/stop`));
  expect(again).toMatchObject({ status: 409, detail: expect.stringMatching(/BROKEN.*STOP/) });
});

test("the audit log keeps no user name that no account has: it may be a password", async () => {
  for (const username of ["Hunter2-hunter2", "my pass phrase", "Admin"]) {
    expect((await stage.login({ username, password: "wrong password" })).status).toBe(401);
  }
  await eventually(async () => {
    const { items } = await get<{ items: { actor: string; action: string }[] }>("/api/audit");
    const failed = items.filter(({ action }) => action === "POST /api/session");
    expect(failed.map(({ actor }) => actor).slice(0, 3)).toEqual(["admin", "-", "-"]);
    expect(JSON.stringify(items)).not.toMatch(/hunter2|phrase/i);
  });
});
