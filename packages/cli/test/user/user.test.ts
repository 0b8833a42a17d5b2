import { PassThrough, Readable } from "node:stream";
import { createPortal, type Portal } from "@ropeway/portal";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { afterAll, beforeAll, expect, test } from "vitest";
import { speak } from "../spoken.ts";

const { server, redis } = await redisForFile();
let portal: Portal;

beforeAll(async () => {
  portal = createPortal(redis, { adminPassword: "the forgotten one" });
  await portal.start();
});

afterAll(() => portal.close());

function ropeway(args: readonly string[], stdin: Readable = Readable.from([])) {
  return speak(["user", ...args], { env: { REDIS_URL: server.url }, stdin });
}

async function login(password: string): Promise<{ status: number; token: string }> {
  const response = await fetch(`${portal.url}/api/session`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ username: "admin", password, as: "token" }),
  });
  const { token } = (await response.json()) as { token: string };
  return { status: response.status, token };
}

/** A terminal at which somebody types these lines, each after a prompt. */
function typing(...lines: string[]): Readable {
  const terminal = new PassThrough();
  for (const line of lines) terminal.write(`${line}\r`);
  return Object.assign(terminal, { isTTY: true });
}

test("a forgotten password is set from a pipe or at a terminal, and old sessions end", async () => {
  const { token } = await login("the forgotten one");
  expect(await ropeway(["password", "Admin"], Readable.from(["from a pipe\nmore\n"]))).toEqual({
    code: 0,
    stdout: "password of admin set; its sessions have ended\n",
    stderr: "",
  });
  const headers = { authorization: `Bearer ${token}` };
  expect((await fetch(`${portal.url}/api/session`, { headers })).status).toBe(401);
  expect((await login("the forgotten one")).status).toBe(401);
  expect((await login("from a pipe")).status).toBe(201);

  const typed = await ropeway(["password", "admin"], typing("typed by hand", "typed by hand"));
  expect(typed).toMatchObject({ code: 0, stderr: "New password for admin: \nOnce more: \n" });
  expect((await login("typed by hand")).status).toBe(201);
});

test("a random one is made on demand and printed once", async () => {
  const { code, stdout } = await ropeway(["password", "admin", "--generate", "--json"]);
  expect(code).toBe(0);
  const { username, password } = JSON.parse(stdout);
  expect({ username, length: password.length }).toEqual({ username: "admin", length: 20 });
  expect((await login(password)).status).toBe(201);
  expect((await ropeway(["password", "admin", "--generate"])).stdout).toMatch(
    /^admin \/ [\w-]{20} {3}\(shown only once\)\n$/,
  );
});

test("what cannot be is refused in one sentence that shows no password, and changes nothing", async () => {
  const before = await server.command("HGETALL", "ropeway:{portal}:user:admin");
  for (const [args, stdin, code, said] of [
    [["password", "admin"], Readable.from(["\n"]), 2, "the password is empty, but must be a"],
    [["password", "admin"], Readable.from(["tiny\n"]), 2, "the password is 4 characters long, but"],
    [["password", "admin"], Readable.from([]), 2, "no password was given"],
    [["password", "admin"], typing("one of them", "another one"), 2, "are not the same"],
    [["password", "nobody"], Readable.from(["long enough\n"]), 4, 'account "nobody" not found'],
    [["password", "admin", "on the line"], Readable.from([]), 2, "too many arguments"],
    [["password"], Readable.from([]), 2, "missing required argument 'name'"],
  ] as const) {
    const spoken = await ropeway(args, stdin);
    expect(spoken.code, said).toBe(code);
    expect(spoken.stderr).toContain(said);
    expect(spoken.stderr).not.toMatch(/tiny|one of them|long enough/);
  }
  expect(await server.command("HGETALL", "ropeway:{portal}:user:admin")).toEqual(before);
});

test("accounts are listed without their hashes", async () => {
  const { stdout } = await ropeway(["list", "--json"]);
  const time = expect.stringMatching(/^\d{4}-.*Z$/);
  expect(JSON.parse(stdout)).toEqual({
    items: [{ username: "admin", role: "admin", createdAt: time, passwordAt: time }],
    cursor: null,
  });
  expect((await ropeway(["list"])).stdout).toMatch(/^admin\tadmin\t\d{4}-\S+\t\d{4}-\S+\n$/);
});
