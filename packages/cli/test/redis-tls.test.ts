import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type RedisServer, startRedis } from "@ropeway/testkit";
import { afterAll, beforeAll, expect, test } from "vitest";
import { speak } from "./spoken.ts";

let server: RedisServer;
let files: { ROPEWAY_REDIS_CA_FILE: string };
let own: { ROPEWAY_REDIS_CERT_FILE: string; ROPEWAY_REDIS_KEY_FILE: string };

beforeAll(async () => {
  server = await startRedis({ tls: true, password: "hush" });
  files = { ROPEWAY_REDIS_CA_FILE: join(server.dir, "server.crt") };
  own = {
    ROPEWAY_REDIS_CERT_FILE: join(server.dir, "server.crt"),
    ROPEWAY_REDIS_KEY_FILE: join(server.dir, "server.key"),
  };
});

afterAll(() => server.close());

const ask = (env: Record<string, string>, ...args: string[]) =>
  speak(["jobs", "list", ...args], { env: { REDIS_URL: server.url, ...env } });

test("a Redis with a certificate of one's own authority is trusted once the authority is named", async () => {
  const stranger = await ask({});
  expect(stranger).toMatchObject({ code: 3, stderr: expect.stringContaining("self-signed") });
  expect(await ask(files)).toEqual({
    code: 0,
    stdout: "",
    stderr: expect.stringMatching(/^no queues/),
  });
  expect(await ask({}, "--redis-ca-file", join(server.dir, "server.crt"))).toMatchObject({
    code: 0,
  });
});

test("a Redis that asks for a certificate gets ours", async () => {
  await server.command("CONFIG", "SET", "tls-auth-clients", "yes");
  expect(await ask(files)).toMatchObject({ code: 3 });
  expect(await ask({ ...files, ...own })).toEqual({
    code: 0,
    stdout: "",
    stderr: expect.stringMatching(/^no queues/),
  });
  await server.command("CONFIG", "SET", "tls-auth-clients", "no");
});

test("what cannot be right is told with the setting, before anything is connected to", async () => {
  const text = join(server.dir, "text");
  await writeFile(text, "not PEM\n");
  const { ROPEWAY_REDIS_CERT_FILE, ROPEWAY_REDIS_KEY_FILE } = own;
  for (const [env, said] of [
    [
      { ROPEWAY_REDIS_CA_FILE: "/no/ca.pem" },
      "cannot read /no/ca.pem (redis.caFile from ROPEWAY_REDIS_CA_FILE): file not found",
    ],
    [
      { ROPEWAY_REDIS_CA_FILE: server.dir },
      `cannot read ${server.dir} (redis.caFile from ROPEWAY_REDIS_CA_FILE): it is a directory`,
    ],
    [
      { ROPEWAY_REDIS_CA_FILE: text },
      `cannot read ${text} (redis.caFile from ROPEWAY_REDIS_CA_FILE): it holds no certificate in PEM`,
    ],
    [
      { ROPEWAY_REDIS_CERT_FILE },
      `redis.certFile is "${ROPEWAY_REDIS_CERT_FILE}" in ROPEWAY_REDIS_CERT_FILE, but must be set together with redis.keyFile`,
    ],
    [
      { ROPEWAY_REDIS_KEY_FILE },
      `redis.keyFile is "${ROPEWAY_REDIS_KEY_FILE}" in ROPEWAY_REDIS_KEY_FILE, but must be set together with redis.certFile`,
    ],
    [
      { ROPEWAY_REDIS_CERT_FILE, ROPEWAY_REDIS_KEY_FILE: text },
      `cannot read ${text} (redis.keyFile from ROPEWAY_REDIS_KEY_FILE): it is not the key of redis.certFile in PEM (`,
    ],
    [
      { ...files, REDIS_URL: "redis://127.0.0.1:1" },
      `redis.caFile is "${files.ROPEWAY_REDIS_CA_FILE}" in ROPEWAY_REDIS_CA_FILE, but must be left out unless redis.url begins with rediss`,
    ],
  ] as const) {
    const { code, stderr } = await ask(env);
    expect({ code, stderr }).toEqual({ code: 2, stderr: expect.stringContaining(said) });
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  }
});
