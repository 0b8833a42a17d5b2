import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { createProgram } from "../src/program.ts";
import { openHome } from "../src/up/home.ts";
import { HomeClaim } from "../src/up/home-claim.ts";
import { version } from "../src/version.ts";
import { speak } from "./spoken.ts";

test("without a command the help is printed", async () => {
  const { code, stdout, stderr } = await speak([]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  expect(stdout).toMatch(/^Usage: ropeway/);
  for (const { name } of createProgram().commands.map((command) => ({ name: command.name() }))) {
    expect(stdout).toContain(`\n  ${name}`);
  }
});

test("no line of any help is wider than 80 columns", async () => {
  const paths: string[][] = [[]];
  for (const path of paths) {
    const { stdout } = await speak([...path, "--help"]);
    expect(stdout).toMatch(/^Usage: ropeway/);
    expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
    const [, listed = ""] = /\nCommands:\n([\s\S]*?)\n\n/.exec(stdout) ?? [];
    const names = [...listed.matchAll(/^ {2}([a-z][\w-]*)/gm)].map(([, name = ""]) => name);
    paths.push(...names.filter((name) => name !== "help").map((name) => [...path, name]));
  }
  expect(paths.length).toBeGreaterThan(100);
}, 60_000);

test("an unknown command or option is one sentence with the one that was meant", async () => {
  expect(await speak(["docter"])).toEqual({
    code: 2,
    stdout: "",
    stderr: "ropeway: unknown command 'docter': did you mean doctor?\n",
  });
  expect((await speak(["up", "--prot", "1"])).stderr).toBe(
    "ropeway: unknown option '--prot': did you mean --port?\n",
  );
  expect((await speak(["up", "--port"])).stderr).toBe(
    "ropeway: option '--port <port>' argument missing: see `ropeway up --help`\n",
  );
  expect((await speak(["completion", "tcsh"])).stderr).toBe(
    'ropeway: shell is "tcsh", but must be one of bash, zsh, fish\n',
  );
  expect((await speak(["merge", "push", "k", "http://h/", "1", "--update", "no"])).stderr).toBe(
    'ropeway: --update is "no", but must be one of once, always\n',
  );
  expect(await speak(["version", "what"])).toEqual({
    code: 2,
    stdout: "",
    stderr: "ropeway: too many arguments for 'version': see `ropeway version --help`\n",
  });
  expect((await speak(["config", "exmple"])).stderr).toBe(
    "ropeway: unknown command 'exmple': did you mean example?\n",
  );
});

test("an option before the command that it belongs to is one sentence with the command", async () => {
  expect(await speak(["sync", "--from", "file:dump.rdb"])).toEqual({
    code: 2,
    stdout: "",
    stderr:
      "ropeway: unknown option '--from': write it after a command (run, check, verify); see `ropeway sync --help`\n",
  });
  expect((await speak(["jobs", "--redis-url=redis://h", "list"])).stderr).toContain(
    "unknown option '--redis-url': write it after a command (add, list, show, ...)",
  );
});

test("help of a command that does not exist is no help", async () => {
  expect((await speak(["help", "merg"])).stderr).toContain("did you mean merge?");
  expect(await speak(["--config", "up", "nonsense", "--help"])).toEqual({
    code: 2,
    stdout: "",
    stderr: "ropeway: unknown command 'nonsense': see `ropeway --help`\n",
  });
});

test("help comes with the word as well as with the option", async () => {
  for (const path of [[], ["merge"], ["merge", "push"], ["config"]]) {
    const { code, stdout } = await speak([...path, "--help"]);
    const [last = "", ...before] = path.toReversed();
    const words = path.length === 0 ? ["help"] : [...before.reverse(), "help", last];
    expect({ words, ...(await speak(words)) }).toEqual({ words, code, stdout, stderr: "" });
  }
});

test("with --json a result is one JSON value, and an error one object with its code", async () => {
  const { stdout } = await speak(["version", "--json"]);
  expect(JSON.parse(stdout)).toEqual({ ropeway: version, node: process.versions.node });
  const { code, stdout: nothing, stderr } = await speak(["config", "--port", "x", "--json"]);
  expect({ code, nothing }).toEqual({ code: 2, nothing: "" });
  expect(JSON.parse(stderr)).toEqual({
    error: {
      code: "BAD_SETTING",
      message: 'portal.port is "x" in --port, but must be a whole number from 0 to 65535',
      key: "portal.port",
      value: '"x"',
      where: "--port",
      allowed: "a whole number from 0 to 65535",
    },
  });
  expect(JSON.parse((await speak(["--json", "nonsense"])).stderr)).toMatchObject({
    error: { code: "USAGE" },
  });
});

test("every command takes --json and the other options of every command", () => {
  const walk = (command: ReturnType<typeof createProgram>): void => {
    const flags = command.options.map(({ long }) => long);
    expect(flags).toEqual(expect.arrayContaining(["--json", "--config", "--no-color", "--debug"]));
    for (const child of command.commands) walk(child as typeof command);
  };
  walk(createProgram());
});

test("an error's stack is printed with --debug only", async () => {
  const plain = await speak(["config", "--config", "/none.toml"]);
  expect(plain.stderr).toBe("ropeway: cannot read /none.toml: file not found\n");
  const debug = await speak(["config", "--config", "/none.toml", "--debug"]);
  expect(debug.stderr).toMatch(/\n {4}at /);
});

test("config prints every setting with where it came from, secrets masked", async () => {
  const env = { REDIS_URL: "redis://me:s3cret@db:1", ROPEWAY_ADMIN_PASSWORD: "correct horse" };
  const { stdout } = await speak(["config", "--port", "9"], { env });
  expect(stdout).toContain('redis.url\t"redis://me:***@db:1"\tREDIS_URL\n');
  expect(stdout).toContain('portal.adminPassword\t"***"\tROPEWAY_ADMIN_PASSWORD\n');
  expect(stdout).toContain("portal.port\t9\t--port\n");
  expect(stdout).toContain("merge.port\t23334\tdefault\n");
  const json = await speak(["config", "--json"], { env });
  expect(json.stdout).not.toMatch(/s3cret|correct horse/);
  expect(JSON.parse(json.stdout).settings).toContainEqual({
    key: "redis.url",
    value: "redis://me:***@db:1",
    source: "environment",
    where: "REDIS_URL",
  });
});

test("tables are aligned and coloured on a terminal, and colours can be switched off", async () => {
  const colour = "\u001b[";
  const terminal = await speak(["config"], { terminal: true });
  expect(terminal.stdout).toContain(colour);
  expect(terminal.stdout).not.toContain("\t");
  for (const args of [
    ["config", "--no-color"],
    ["--no-color", "config"],
  ]) {
    expect((await speak(args, { terminal: true })).stdout).not.toContain(colour);
  }
  const env = { NO_COLOR: "1" };
  expect((await speak(["config"], { terminal: true, env })).stdout).not.toContain(colour);
  expect((await speak(["config"])).stdout).not.toContain(colour);
});

test("a command without a Redis says in one sentence what to do", async () => {
  expect(await speak(["portal"], { env: { ROPEWAY_HOME: "/none" } })).toEqual({
    code: 3,
    stdout: "",
    stderr:
      "ropeway: no Redis configured: set REDIS_URL, or start one with `ropeway up` (none is running in /none)\n",
  });
});

test("help shows a command's own options line by line, and settings and common options as flags", async () => {
  const { stdout } = await speak(["user", "password", "--help"]);
  expect(stdout).toBe(`Usage: ropeway user password [options] <name>

Set the password of an account, and end its sessions

Asks for the new password without showing it. In a pipe, reads it from the first
line of standard input. The old password is not needed, only access to the
store. Use it when the password of \`admin\` is lost.

Arguments:
  name  the account's name

Options:
  --generate  generate a random password and print it once

Settings:
  --home, --redis-url, --redis-password-file, --redis-ca-file,
  --redis-cert-file, --redis-key-file, --prefix, --store, --store-ca-file,
  --store-cert-file, --store-key-file, --cluster-secret-key-file (see \`ropeway
  config --help\`)

Options of every command:
  --json, --config, --no-color, --debug, --help
`);
  const { stdout: config } = await speak(["config", "--help"]);
  expect(config).toMatch(/^ {2}--redis-url <url> {2,}The URL of the Redis to use/m);
});

test("what came from outside is escaped in errors too", async () => {
  const { stderr } = await speak(["config", "--config", "/\u001b[2J"]);
  expect(stderr).toBe("ropeway: cannot read /\\u001b[2J: file not found\n");
});

test("config shows the Redis that `ropeway up` runs in this home, and a redis.url instead of it", async () => {
  const home = mkdtempSync(join(tmpdir(), "ropeway-config-"));
  onTestFinished(() => rmSync(home, { recursive: true }));
  const redisRow = async (env: Record<string, string> = {}) => {
    const { stdout } = await speak(["config", "--home", home, "--json"], { env });
    const { settings } = JSON.parse(stdout) as { settings: { key: string }[] };
    return settings.find(({ key }) => key === "redis.url");
  };
  const nothing = { key: "redis.url", value: null, source: "default", where: "default" };
  expect(await redisRow()).toEqual(nothing);
  {
    await using claim = await HomeClaim.take(await openHome(home));
    await claim.tell({ redisUrl: "redis://127.0.0.1:7001" });
    expect(await redisRow()).toEqual({
      key: "redis.url",
      value: "redis://127.0.0.1:7001",
      source: "home",
      where: `ropeway up in ${home}`,
    });
    expect(await redisRow({ REDIS_URL: "redis://127.0.0.1:7002" })).toMatchObject({
      value: "redis://127.0.0.1:7002",
      where: "REDIS_URL",
    });
  }
  expect(await redisRow()).toEqual(nothing);
});
