// Homebrew itself is not here; a stand-in with its two commands shows what we ask of it and what we
// make of the answers. The server it "installs" is a real one.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findBrew, installWithBrew } from "../src/brew.ts";
import { examine } from "../src/candidate.ts";
import { resolveProvideOptions } from "../src/options.ts";
import { programOf } from "../src/program.ts";
import { realRedis, script, temporaryFolder } from "./workshop.ts";

test("brew is asked to install the formula, and its prefix holds the program", async () => {
  const folder = await temporaryFolder();
  const spare = await realRedis(join(folder, "spare"));
  await script(
    join(folder, "tools", "brew"),
    `echo "$@" >>"${folder}/asked"
     case $1 in
       install) mkdir -p "${folder}/prefix/bin" && cp "${spare}" "${folder}/prefix/bin/redis-server" ;;
       --prefix) echo "${folder}/prefix" ;;
     esac`,
  );
  const env = { PATH: `${join(folder, "tools")}:/usr/bin:/bin` };
  const resolved = resolveProvideOptions({ env, folder });
  const program = programOf("redis-server");
  const brew = (await findBrew(resolved)) as string;
  const candidate = await installWithBrew(brew, program, resolved);
  expect(await readFile(join(folder, "asked"), "utf8")).toBe("install --quiet redis\n--prefix\n");
  expect(await examine(program, candidate, resolved)).toMatchObject({
    origin: "brew",
    product: "redis",
    command: [join(folder, "prefix/bin/redis-server")],
  });
});

test("a formula that fails is a step that failed, with brew's last words", async () => {
  const folder = await temporaryFolder();
  const brew = await script(join(folder, "brew"), "echo 'Error: no bottle' >&2; exit 1");
  const resolved = resolveProvideOptions({ env: { PATH: "/usr/bin:/bin" }, folder });
  await expect(installWithBrew(brew, programOf("etcd"), resolved)).rejects.toThrow(
    "Error: no bottle",
  );
});
