/** Two portals over one store: what one shows and counts, the other does too. */
import { Cluster, openRedisStore } from "@ropeway/cluster";
import type { Redis } from "@ropeway/core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPortal, type Portal, tasksPart } from "../src/index.ts";
import { Stage } from "./stage.fixture.ts";

let stage: Stage;
let second: Portal;
let urls: [string, string];
let admin: { authorization: string };
const closing: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  const parts = (redis: Redis) => {
    const store = openRedisStore(redis);
    closing.push(() => store.close());
    return [tasksPart(new Cluster(store))];
  };
  stage = await Stage.open({ partsOf: parts });
  second = createPortal(stage.redis, { parts: parts(stage.redis) });
  urls = [stage.url, (await second.start()).url];
  admin = await stage.bearer();
});
afterAll(async () => {
  await second.close();
  for (const close of closing) await close();
  await stage.close();
});

interface TaskPage {
  readonly items: readonly { readonly id: string; readonly name: string }[];
  readonly cursor: string | null;
}

let count = 0;
async function create(): Promise<string> {
  const body = JSON.stringify({ name: `page ${count++}`, type: "scripted", config: {} });
  const headers = { ...admin, "content-type": "application/json" };
  const answer = await fetch(`${urls[count % 2]}/api/tasks`, { method: "POST", headers, body });
  expect(answer.status).toBe(201);
  return ((await answer.json()) as { id: string }).id;
}

test("pages of tasks that are read from two portals in turn are complete while tasks come and go", async () => {
  const staying: string[] = [];
  const leaving: string[] = [];
  for (let n = 0; n < 40; n++) (n % 2 === 0 ? staying : leaving).push(await create());
  for (const filter of ["", "&status=CREATED", "&type=scripted"]) {
    const seen: string[] = [];
    let cursor: string | null = "";
    for (let page = 0; cursor !== null && page < 100; page++) {
      const more: string = cursor && `&cursor=${encodeURIComponent(cursor)}`;
      const path = `/api/tasks?limit=3${filter}${more}`;
      const answer = await fetch(`${urls[page % 2]}${path}`, { headers: admin });
      expect(answer.status).toBe(200);
      const found = (await answer.json()) as TaskPage;
      expect(found.items.length).toBeLessThanOrEqual(3);
      seen.push(...found.items.map(({ id }) => id));
      cursor = found.cursor;
      // One goes, sometimes the very one that the cursor stands on, and another comes.
      const last = found.items.at(-1)?.id ?? "";
      const gone = leaving.includes(last) ? last : leaving[0];
      if (page >= 6 || gone === undefined) continue;
      leaving.splice(leaving.indexOf(gone), 1);
      await fetch(`${urls[1]}/api/tasks/${gone}`, { method: "DELETE", headers: admin });
      await create();
    }
    expect(cursor).toBeNull();
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen).toEqual(expect.arrayContaining(staying));
  }
});

test("sessions, failed logins and idempotency keys are shared", async () => {
  await stage.addAccount("both", "operator");
  const both = await stage.bearer("both");
  const at = (url: string, path: string, init: RequestInit = {}) =>
    fetch(`${url}${path}`, {
      ...init,
      headers: {
        ...both,
        ...(init.body && { "content-type": "application/json" }),
        ...init.headers,
      },
    });
  expect((await at(urls[1], "/api/session")).status).toBe(200);
  const body = JSON.stringify({ name: "once", type: "scripted", config: {} });
  const wish = { method: "POST", body, headers: { "idempotency-key": "shared" } };
  const made = await Promise.all(urls.map((url) => at(url, "/api/tasks", wish)));
  expect(made.map(({ status }) => status).sort()).toEqual([200, 201]);
  const [one, other] = await Promise.all(
    made.map(async (answer) => (await answer.json()) as { id: string }),
  );
  expect(one?.id).toBe(other?.id);
  expect((await at(urls[0], "/api/session", { method: "DELETE" })).status).toBe(204);
  expect((await at(urls[1], "/api/session")).status).toBe(401);
  const wrong = JSON.stringify({ username: "both", password: "wrong password" });
  const statuses: number[] = [];
  // The first pause may be over when a slow machine has checked the next password; each one is twice as long. A portal
  // that counts alone begins with the pauses at its own sixth.
  for (let n = 0; n < 9 && statuses.at(-1) !== 429; n++) {
    const headers = { "content-type": "application/json" };
    const init = { method: "POST", body: wrong, headers };
    statuses.push((await fetch(`${urls[n % 2]}/api/session`, init)).status);
  }
  expect(statuses.slice(0, 5)).toEqual([401, 401, 401, 401, 401]);
  expect(statuses.at(-1)).toBe(429);
});
