/** Passwords in addresses: where they may come from, and that nobody else on the machine can read them. */
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { eventually, spawnScript, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { maskedArgument } from "../src/secret-address.ts";
import { speak } from "./spoken.ts";

const CLI = new URL("../bin/ropeway.mjs", import.meta.url);

test("addresses come from the environment, a file or standard input, and the audit names the OS user", async () => {
  await using server = await startRedis();
  const home = await mkdtemp(join(tmpdir(), "ropeway-secret-"));
  await writeFile(join(home, "to.url"), "redis://:from-a-file@new:6379\nmore\n");
  const env = {
    REDIS_URL: server.url,
    ROPEWAY_SECRET_KEY: Buffer.alloc(32, 7).toString("base64"),
    OLD: "redis://:from-env@old:6379",
  };
  const say = (args: string[], stdin = "") =>
    speak(args, { env, cwd: home, stdin: Readable.from(stdin === "" ? [] : [stdin]) });
  const create = (name: string, ...rest: string[]) => ["task", "create", "--name", name, ...rest];

  const mixed = await say(create("mixed", "--from", "env:OLD", "--to", "@to.url", "--json"));
  expect(mixed).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(mixed.stdout)).toMatchObject({
    config: { from: "redis://old:6379", to: "redis://new:6379" },
  });
  const piped = await say(
    create("piped", "--from", "-", "--to", "-", "--json"),
    "redis://:one@old:1\nredis://:two@new:2\n",
  );
  expect(piped).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(piped.stdout)).toMatchObject({
    config: { from: "redis://old:1", to: "redis://new:2" },
  });
  const warned = await say(create("warned", "--from", "redis://:seen@old:3", "--to", "env:OLD"));
  expect(warned.code).toBe(0);
  expect(warned.stderr).toMatch(/--from has a password on the command line.*env:NAME, @FILE or -/);
  expect(warned.stderr).not.toContain("seen");

  for (const [args, stdin, said] of [
    [["--from", "env:NONE", "--to", "redis://b"], "", "that environment variable is not set"],
    [["--from", "@none.url", "--to", "redis://b"], "", "file not found"],
    [["--from", "-", "--to", "-"], "redis://a\n", "--to is -, but standard input has no line"],
    [["--from", "-", "--to", "redis://b", "--options", "-"], "x", "cannot both be read"],
  ] as const) {
    const refused = await say(create("refused", ...args), stdin);
    expect(refused.code, said).not.toBe(0);
    expect(refused.stderr).toContain(said);
  }

  const audit = JSON.parse((await say(["audit", "list", "--json"])).stdout);
  expect(audit.items.map(({ actor, action }: Record<string, string>) => [actor, action])).toEqual(
    Array.from({ length: 3 }, () => [`cli:${userInfo().username}`, "task create"]),
  );
  await rm(home, { recursive: true });
});

test.runIf(process.platform === "linux")(
  "a password on the command line leaves the process list",
  async () => {
    await using source = await startRedis({ config: ["requirepass hidden"] });
    await using target = await startRedis();
    const { port } = source;
    const from = `redis://:hidden@127.0.0.1:${port}`;
    const script = await spawnScript(CLI, {
      args: ["sync", "run", "--from", from, "--to", target.url, "--json"],
    });
    await script.waitForLine(/"phase"/, { withinMs: 60_000 });
    await eventually(() => {
      const line = readFileSync(`/proc/${script.pid}/cmdline`, "utf8");
      expect(line).toContain(`ropeway sync run --from redis://:***@127.0.0.1:${port}`);
      expect(line).not.toContain("hidden");
    });
    await script.terminate(20_000);
  },
  90_000,
);

test("passwords are masked in URLs, queries and JSON, and nothing else is", () => {
  expect(maskedArgument("redis://user:p@ss@h:1,b:2/0")).toBe("redis://user:***@h:1,b:2/0");
  expect(maskedArgument("sentinel://h/m?sentinelPassword=a&db=1")).toBe(
    "sentinel://h/m?sentinelPassword=***&db=1",
  );
  expect(maskedArgument("https://h/dump.rdb?X-Amz-Signature=a&part=1")).toBe(
    "https://h/dump.rdb?X-Amz-Signature=***&part=1",
  );
  expect(maskedArgument('{"password": "a", "mode": "total"}')).toBe(
    '{"password": "***", "mode": "total"}',
  );
  for (const address of [
    "redis://us/er:hidden@h:1",
    "redis://u:a@b/hidden@h:1",
    "sentinel://h/m?sentinelPassword=a#hidden",
    "sentinel://h/m?sentinel%50assword=hidden",
    "https:///u:hidden@h/dump.rdb",
    "https:/\\u:hidden@h/dump.rdb",
    "https://\tu:hidden@h/dump.rdb",
    "https://u:a hidden@h/dump.rdb",
  ]) {
    expect(maskedArgument(address)).not.toContain("hidden");
    expect(maskedArgument(`--from=${address}`)).toMatch(/^--from=(?!.*hidden).*\*\*\*/);
  }
  for (const plain of ["redis://user@h:1", "env:A", "a:b@c", "https://h/x?y=1", "http:a@b"]) {
    expect(maskedArgument(plain)).toBe(plain);
  }
});

test.each([
  ["letters", "a".repeat(100_000)],
  ["unfinished names", "?passw".repeat(20_000)],
  ["unfinished fields", `"${"passw".repeat(20_000)}`],
  ["quotes and spaces", `"token" ${" ".repeat(100_000)}`],
  ["addresses without a password", "redis://host:1/".repeat(7_000)],
])("an argument of 100 KB of %s is read in proportion to its length", (_, argument) => {
  const before = process.cpuUsage();
  expect(maskedArgument(argument)).toBe(argument);
  // A quadratic search of any of them takes minutes, or never ends.
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(5_000);
});
