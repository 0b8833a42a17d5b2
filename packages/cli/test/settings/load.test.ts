import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { loadSettings, type SettingsSources, showSetting } from "../../src/settings/load.ts";

const cwd = mkdtempSync(join(tmpdir(), "ropeway-settings-"));
afterAll(() => rmSync(cwd, { recursive: true }));

function load({ toml = "", env = {}, flags = {} }: { toml?: string } & Partial<SettingsSources>) {
  writeFileSync(join(cwd, "ropeway.toml"), toml);
  return loadSettings({ cwd, env, flags });
}

function faultOf(sources: Parameters<typeof load>[0]): string {
  try {
    load(sources);
  } catch (error) {
    return `${(error as { code: string }).code}: ${(error as Error).message}`;
  }
  return "no fault";
}

test("flags are stronger than the environment, that than the file, that than the default", () => {
  const toml = 'prefix = "mine"\n[portal]\nhost = "10.0.0.1"\nport = 1111\n';
  const env = { ROPEWAY_PORT: "2222", ROPEWAY_PORTAL_HOST: "10.0.0.2" };
  const { values, origins } = load({ toml, env, flags: { "portal.port": "3333" } });
  expect(values).toMatchObject({
    "portal.port": 3333,
    "portal.host": "10.0.0.2",
    prefix: "mine",
    "merge.port": 23334,
  });
  expect(origins["portal.port"]).toEqual({ source: "flag", where: "--port" });
  expect(origins["portal.host"]).toEqual({ source: "environment", where: "ROPEWAY_PORTAL_HOST" });
  expect(origins.prefix).toEqual({ source: "file", where: "ropeway.toml:1" });
  expect(origins["merge.port"]).toEqual({ source: "default", where: "default" });
});

test("names of earlier versions keep working, and the new name is stronger", () => {
  const toml = '[queue]\nhost = "10.0.0.1"\ntargets = ["loopback"]\n';
  const env = { ROPEWAY_QUEUE_PORT: "2", ROPEWAY_MERGE_PORT: "3", ROPEWAY_QUEUE_PER_ORIGIN: "5" };
  expect(load({ toml, env }).values).toMatchObject({
    "merge.host": "10.0.0.1",
    "merge.allow": ["loopback"],
    "merge.port": 3,
    "merge.perOrigin": 5,
  });
  expect(load({ env }).warnings).toEqual([]);
});

test("the names that scripts rely on are read", () => {
  const env = {
    REDIS_URL: "redis://db:7000/2",
    ROPEWAY_HOME: "here",
    ROPEWAY_PORT: "1",
    ROPEWAY_QUEUE_PORT: "2",
    ROPEWAY_ADMIN_PASSWORD: "correct horse",
    ROPEWAY_TARGETS: "10.0.0.0/8, 127.0.0.1",
  };
  expect(load({ env }).values).toMatchObject({
    "redis.url": "redis://db:7000/2",
    home: join(cwd, "here"),
    "portal.port": 1,
    "merge.port": 2,
    "portal.adminPassword": "correct horse",
    "merge.allow": ["10.0.0.0/8", "127.0.0.1"],
  });
});

test("a variable that is set to nothing is not set", () => {
  expect(load({ env: { REDIS_URL: "", ROPEWAY_PORT: "" } }).values).toMatchObject({
    "redis.url": undefined,
    "portal.port": 7480,
  });
});

test("a wrong value is told with its key, itself, its place and what is allowed", () => {
  const range = "but must be a whole number from 0 to 65535";
  expect(faultOf({ env: { ROPEWAY_PORT: "seven" } })).toBe(
    `BAD_SETTING: portal.port is "seven" in ROPEWAY_PORT, ${range}`,
  );
  const count = "but must be a whole number from 1 to 10000";
  expect(faultOf({ env: { ROPEWAY_QUEUE_PER_ORIGIN: "0" } })).toBe(
    `BAD_SETTING: merge.perOrigin is 0 in ROPEWAY_QUEUE_PER_ORIGIN, ${count}`,
  );
  expect(faultOf({ toml: "[portal]\n\nport = 70000\n" })).toBe(
    `BAD_SETTING: portal.port is 70000 in ropeway.toml:3, ${range}`,
  );
  expect(faultOf({ flags: { "log.level": "loud" } })).toBe(
    'BAD_SETTING: log.level is "loud" in --log-level, but must be one of debug, info, warn, error, silent',
  );
  expect(faultOf({ toml: "[queue]\ntargets = [1]\n" })).toContain("a list of strings");
  expect(faultOf({ env: { REDIS_URL: "http://:s3cret@x" } })).toMatch(
    /^BAD_SETTING: redis.url is "http:\/\/:\*\*\*@x" in REDIS_URL, but must be a URL such as redis:.*unknown scheme/,
  );
});

test("a wrong line in the file is told even when a flag overrules it", () => {
  expect(faultOf({ toml: "[portal]\nport = -1\n", flags: { "portal.port": "1" } })).toContain(
    "ropeway.toml:2",
  );
});

test("a key that does not exist is told, with the one that was probably meant", () => {
  expect(faultOf({ toml: "[portl]\nport = 1\n" })).toBe(
    "UNKNOWN_SETTING: ropeway.toml:2 sets portl.port, which is not a setting: did you mean portal.port?",
  );
  expect(faultOf({ toml: "level = 1\n" })).toContain("did you mean log.level?");
  expect(faultOf({ toml: "[zzz]\n" })).toBe(
    "UNKNOWN_SETTING: ropeway.toml:1 sets zzz, which is not a setting: see `ropeway config`",
  );
  expect(faultOf({ toml: "[portal]\n" })).toBe("no fault");
  expect(faultOf({ toml: "portal = 1\n" })).toContain("sets portal, which is not a setting");
});

test("a variable that is nearly a setting is warned of, other ones are not ours to judge", () => {
  const env = { ROPEWAY_PROT: "1", ROPEWAY_ETCD: "/usr/bin/etcd", OTHER: "1" };
  expect(load({ env }).warnings).toEqual([
    "ROPEWAY_PROT is no setting: did you mean ROPEWAY_PORT?",
  ]);
});

test("a file that is no TOML is told with line and column, a missing one by name", () => {
  expect(faultOf({ toml: "[portal\n" })).toMatch(
    /^UNREADABLE_FILE: cannot read ropeway.toml:1:\d+: /,
  );
  expect(() => loadSettings({ cwd, env: {}, flags: {}, file: "none.toml" })).toThrow(
    `cannot read ${join(cwd, "none.toml")}: file not found`,
  );
});

test("a secret is taken from the environment only, and never shown", () => {
  const url = "redis://:s3cret@db";
  expect(faultOf({ toml: `[redis]\nurl = "${url}"\n` })).toBe(
    "MISPLACED_SECRET: ropeway.toml:2 holds a secret for redis.url: use REDIS_URL or redis.passwordFile instead",
  );
  expect(faultOf({ flags: { "redis.url": url } })).toContain("--redis-url holds a secret");
  expect(faultOf({ toml: '[portal]\nadminPassword = "correct horse"\n' })).toBe(
    "MISPLACED_SECRET: ropeway.toml:2 holds a secret for portal.adminPassword: use ROPEWAY_ADMIN_PASSWORD or portal.adminPasswordFile instead",
  );
  const { values } = load({ env: { REDIS_URL: url, ROPEWAY_ADMIN_PASSWORD: "correct horse" } });
  expect(showSetting("redis.url", values["redis.url"])).toBe('"redis://:***@db"');
  expect(showSetting("portal.adminPassword", values["portal.adminPassword"])).toBe('"***"');
});

test("a path in the file is seen from the file's folder, else from the current one", () => {
  writeFileSync(join(cwd, "other.toml"), 'home = "data"\n');
  const elsewhere = loadSettings({ cwd: "/", env: {}, flags: {}, file: join(cwd, "other.toml") });
  expect(elsewhere.values.home).toBe(join(cwd, "data"));
  expect(loadSettings({ cwd: "/", env: { ROPEWAY_HOME: "data" }, flags: {} }).values.home).toBe(
    "/data",
  );
});

test("whatever a file or variable holds, it is settings or a typed error", () => {
  const word = fc.constantFrom(
    "[",
    "]",
    "portal",
    "port",
    "=",
    "1",
    '"',
    "\n",
    ".",
    "#",
    "__proto__",
  );
  const toml = fc.oneof(
    fc.string(),
    fc.array(word, { maxLength: 30 }).map((words) => words.join("")),
  );
  fc.assert(
    fc.property(toml, fc.string(), (text, variable) => {
      const fault = faultOf({ toml: text, env: { ROPEWAY_PORT: variable, REDIS_URL: variable } });
      expect(fault).toMatch(/^(no fault|[A-Z_]+: )/);
      expect(fault).not.toMatch(/^undefined/);
    }),
    { numRuns: 300 },
  );
});

test("durations have units in the environment, in flags and as strings in the file", () => {
  const toml = '[node]\nleaseMs = "20s"\n[merge]\nletterAgeMs = 1000\n';
  const env = { ROPEWAY_MERGE_TIMEOUT_MS: "1.5m" };
  const { values } = load({ toml, env, flags: { "inspect.everyMs": "500" } });
  expect(values).toMatchObject({
    "node.leaseMs": 20_000,
    "merge.timeoutMs": 90_000,
    "inspect.everyMs": 500,
    "merge.letterAgeMs": 1_000,
  });
  expect(faultOf({ env: { ROPEWAY_NODE_LEASE_MS: "1s" } })).toBe(
    'BAD_SETTING: node.leaseMs is "1s" in ROPEWAY_NODE_LEASE_MS, but must be a whole number from 2000 to 600000 in milliseconds, or a duration such as 5s, 2m or 1h',
  );
});

test("the address of the alerts' webhook is judged at once, and printed without what may be a token", () => {
  const of = (url: string) => ({ env: { ROPEWAY_ALERTS_WEBHOOK: url } });
  for (const bad of ["https://ann:hunter2@hooks.example/x", "ftp://hooks.example", "hunter2"]) {
    const fault = faultOf(of(bad));
    expect(fault).toMatch(
      /^BAD_SETTING: alerts\.webhook is .* in ROPEWAY_ALERTS_WEBHOOK, but must be/,
    );
    expect(fault).not.toContain("hunter2");
  }
  const { values } = load(of("https://hooks.example/T/hunter2?token=hunter2"));
  expect(values["alerts.webhook"]).toBe("https://hooks.example/T/hunter2?token=hunter2");
  const shown = showSetting("alerts.webhook", values["alerts.webhook"]);
  expect(shown).toBe('"https://hooks.example/***"');
});
