/** What the audit log says about requests whose end is not the usual one. */
import { connect as dial } from "node:net";
import { openRedisStore, StoreUnavailableError } from "@ropeway/cluster";
import { eventually } from "@ropeway/testkit";
import type { FastifyRequest } from "fastify";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AuditLog } from "../src/access/audit-log.ts";
import { Auditor } from "../src/access/auditor.ts";
import { needs } from "../src/access/permission.ts";
import { LoginFailedError } from "../src/errors.ts";
import { Stage } from "./stage.fixture.ts";

let stage: Stage;
let admin: { authorization: string };
let log: AuditLog;

beforeAll(async () => {
  stage = await Stage.open({
    parts: [
      {
        name: "unsure",
        about: { en: "", zh: "" },
        routes(app) {
          app.post("/api/unsure", { config: needs("user:edit") }, async () => {
            throw new StoreUnavailableError("a store", true, new Error("its response was lost"));
          });
        },
      },
    ],
  });
  admin = await stage.bearer();
  log = new AuditLog(openRedisStore(stage.redis));
});
afterAll(() => stage.close());

/** Sends a request and disconnects, once `until` resolves, without waiting for the response. */
async function hangUp(path: string, body: object, until: () => Promise<unknown>): Promise<void> {
  const { hostname, port } = new URL(stage.url);
  const text = JSON.stringify(body);
  const socket = dial(Number(port), hostname);
  const closed = new Promise((resolve) => socket.once("close", resolve));
  const head = [
    `POST ${path} HTTP/1.1`,
    "Host: localhost",
    ...(path === "/api/session" ? [] : [`Authorization: ${admin.authorization}`]),
    "Content-Type: application/json",
    `Content-Length: ${Buffer.byteLength(text)}`,
  ];
  socket.write(`${head.join("\r\n")}\r\n\r\n${text}`);
  await until();
  socket.destroy();
  await closed;
}

const entriesOf = async (action: string) =>
  (await log.list({ limit: 100 })).items.filter((entry) => entry.action === action);

test("a change whose client did not wait for the response is not noted as failed", async () => {
  const action = "POST /api/users";
  await hangUp("/api/users", { username: "ann", role: "admin", password: "long enough" }, () =>
    eventually(async () => expect(await entriesOf(action)).toHaveLength(1)),
  );
  await eventually(async () => expect(await stage.users.get("ann")).toBeDefined());
  await eventually(async () =>
    expect(await entriesOf(action)).toMatchObject([{ outcome: "done", status: 201 }]),
  );
});

test("a wrong password is noted, also if its client did not wait for the response", async () => {
  const tried = async () =>
    expect(await stage.server.command("KEYS", "*:logins:user:ann:*")).not.toEqual([]);
  await hangUp("/api/session", { username: "ann", password: "a guess" }, () => eventually(tried));
  await eventually(async () => {
    const entries = await entriesOf("POST /api/session");
    expect(entries.filter(({ actor }) => actor === "ann")).toMatchObject([
      { outcome: "refused", status: 401 },
    ]);
  });
});

test("a change that may have been made is not noted as failed", async () => {
  const response = await stage.ask("/api/unsure", { method: "POST", headers: admin });
  expect(response.status).toBe(503);
  await eventually(async () =>
    expect(await entriesOf("POST /api/unsure")).toMatchObject([
      { outcome: "started", status: 503 },
    ]),
  );
});

test("the log is trimmed also if all its entries are of logins", async () => {
  let [entries, trims] = [0, 0];
  const counting = {
    begin: async (entry: object) => ({ id: String(++entries), at: 0, ...entry }),
    async complete() {},
    async trim() {
      trims += 1;
    },
  };
  const auditor = new Auditor(counting as unknown as AuditLog, async () => undefined);
  const request = { method: "GET", url: "/", headers: {}, routeOptions: {}, ip: "::1", socket: {} };
  for (let n = 0; n < 1_001; n++) {
    auditor.loginFailed(request as unknown as FastifyRequest, new LoginFailedError());
  }
  await eventually(() => expect([entries, trims]).toEqual([1_001, 2]));
});
