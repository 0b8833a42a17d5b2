import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const script = fileURLToPath(new URL("../test.mjs", import.meta.url));

test("a server that cannot be provided gives one sentence and exit code 1, before any test runs", () => {
  const env = { ...process.env, ROPEWAY_ETCD: "/absent/etcd" };
  const { status, stdout, stderr } = spawnSync(process.execPath, [script], {
    env,
    encoding: "utf8",
  });
  expect(status).toBe(1);
  expect(stdout).toBe("");
  expect(stderr.trim().split("\n").at(-1)).toBe(
    "ROPEWAY_ETCD cannot be used because /absent/etcd does not run (spawn /absent/etcd ENOENT): set it to the path of a working etcd, or unset it to have one found.",
  );
});
