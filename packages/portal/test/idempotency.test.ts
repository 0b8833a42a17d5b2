/** Idempotency keys: whose they are, and what a repeated request shows. */
import { Cluster, openRedisStore } from "@ropeway/cluster";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tasksPart } from "../src/index.ts";
import { Stage } from "./stage.fixture.ts";

let stage: Stage;
let admin: { authorization: string };

beforeAll(async () => {
  stage = await Stage.open({
    partsOf: (redis) => [tasksPart(new Cluster(openRedisStore(redis)))],
  });
  admin = await stage.bearer();
});
afterAll(() => stage.close());

interface View {
  readonly id: string;
}

const post = (path: string, body: object, headers: Record<string, string> = admin) =>
  stage.ask(path, { method: "POST", headers, body });
let count = 0;
const task = (more: object = {}) => ({
  ...{ name: `keyed ${++count}`, type: "scripted", config: {} },
  ...more,
});

test("idempotency keys of one account mean nothing to another", async () => {
  for (const name of ["ida", "ivo"]) await stage.addAccount(name, "operator");
  const [ida, ivo] = await Promise.all([stage.bearer("ida"), stage.bearer("ivo")]);
  const create = async (who: Record<string, string>, body: object) => {
    const answer = await post("/api/tasks", body, { ...who, "idempotency-key": "1" });
    return { code: answer.status, id: ((await answer.json()) as View).id };
  };
  const first = await create(ida, task());
  const body = task();
  const second = await create(ivo, body);
  expect([first.code, second.code]).toEqual([201, 201]);
  expect(await create(ivo, body)).toEqual({ code: 200, id: second.id });
});

test("a repeated request does not show a task that is in another group now", async () => {
  const role = { name: "author-q", permissions: ["task:edit"], groups: ["q"] };
  await post("/api/roles", role);
  await stage.addAccount("quinn", "author-q");
  const quinn = { ...(await stage.bearer("quinn")), "idempotency-key": "q" };
  const body = task({ group: "q" });
  const { id } = (await (await post("/api/tasks", body, quinn)).json()) as View;
  expect((await post("/api/tasks", body, quinn)).status).toBe(200);
  const moved = { method: "PATCH", headers: admin, body: { group: "r" } };
  expect((await stage.ask(`/api/tasks/${id}`, moved)).status).toBe(200);
  expect((await post("/api/tasks", body, quinn)).status).toBe(404);
});
