import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { programOf } from "../src/program.ts";
import { openPartial, place, storedPrograms } from "../src/programs-folder.ts";
import { script, temporaryFolder } from "./workshop.ts";

async function bundle(folder: string, product: string, version: string): Promise<void> {
  const home = join(folder, `${product}-${version}`);
  await script(join(home, "bin", `${product}-server`), "true");
  await writeFile(join(home, "bundle.json"), JSON.stringify({ product, version }));
}

test("Redis comes before Valkey and the newest version first", async () => {
  const folder = await temporaryFolder();
  for (const version of ["7.0.15", "7.0.9", "8.0.2"]) await bundle(folder, "redis", version);
  await bundle(folder, "valkey", "9.0.0");
  const paths = (await storedPrograms(programOf("redis-server"), folder)).map(({ path }) => path);
  expect(paths).toEqual(
    ["redis-8.0.2", "redis-7.0.15", "redis-7.0.9", "valkey-9.0.0"].map((name) =>
      join(folder, name, "bin", `${name.split("-")[0]}-server`),
    ),
  );
});

test("a folder that does not exist holds nothing", async () => {
  expect(await storedPrograms(programOf("etcd"), join(await temporaryFolder(), "absent"))).toEqual(
    [],
  );
});

test("a download that goes on after the crash of its filling does not stop the next one", async () => {
  const folder = await temporaryFolder();
  const crashed = await openPartial(folder);
  const writes = `while :; do mkdir -p "$0/a"; touch "$0/a/b" "$0/c"; done`;
  const download = spawn("/bin/sh", ["-c", writes, crashed], { stdio: "ignore" });
  const ended = once(download, "exit");
  onTestFinished(async () => {
    download.kill("SIGKILL");
    await ended;
  });
  for (let i = 0; i < 5; i++) {
    const partial = await openPartial(folder);
    expect(await readdir(partial)).toEqual([]);
  }
});

test("what a crash left is swept away when the next filling begins", async () => {
  const folder = await temporaryFolder();
  const crashed = await openPartial(folder);
  await writeFile(join(crashed, "half"), "");
  await mkdir(join(folder, "etcd-3.4.23"));
  const partial = await openPartial(folder);
  expect((await readdir(folder)).sort()).toEqual([partial.split("/").at(-1), "etcd-3.4.23"]);
});

test("a bundle takes the place of a damaged one of the same name", async () => {
  const folder = await temporaryFolder();
  for (const content of ["first", "second"]) {
    const made = join(await openPartial(folder), "redis");
    await mkdir(made);
    await writeFile(join(made, "content"), content);
    await place(made, join(folder, "redis-7.0.15"));
    expect(await readFile(join(folder, "redis-7.0.15", "content"), "utf8")).toBe(content);
  }
});
