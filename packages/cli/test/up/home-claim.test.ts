import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Script, spawnScript } from "@ropeway/testkit";
import { expect, test, vi } from "vitest";
import { openHome } from "../../src/up/home.ts";
import { HomeClaim, holderOf } from "../../src/up/home-claim.ts";
import { makeHome, PATIENCE_MS } from "./started.ts";

vi.setConfig({ testTimeout: PATIENCE_MS });

const CLAIMANT = new URL("./claimant.fixture.ts", import.meta.url);

async function claimants(home: string, count: number): Promise<Script[]> {
  const scripts = Array.from({ length: count }, () => spawnScript(CLAIMANT, { args: [home] }));
  const started = await Promise.all(scripts);
  await Promise.all(
    started.map((script) => script.waitForLine(/ready/, { withinMs: PATIENCE_MS / 2 })),
  );
  return started;
}

test("of many that want a home at once exactly one gets it, and after its kill -9 the next", async () => {
  await using place = await makeHome();
  const home = await openHome(place.path);
  const scripts = await claimants(home.path, 5);
  for (const script of scripts) script.send("go");
  const answers = await Promise.all(
    scripts.map(async (script) => ({
      script,
      answer: (await script.waitForLine(/mine|ALREADY_RUNNING/, { withinMs: PATIENCE_MS / 2 }))[0],
    })),
  );
  const winners = answers.filter(({ answer }) => answer === "mine");
  expect(winners).toHaveLength(1);
  const holder = await holderOf(home);
  expect(holder?.pid).toBe(winners[0]?.script.pid);
  await Promise.all(scripts.map((script) => script.close()));

  await using claim = await HomeClaim.take(home);
  expect(await readdir(home.claims)).toHaveLength(1);
  await claim.tell({ url: "http://here" });
  expect(await holderOf(home)).toMatchObject({ pid: process.pid, url: "http://here" });
});

test("a claim whose pid is another process now is as good as none", async () => {
  await using place = await makeHome();
  const home = await openHome(place.path);
  const stale = join(home.claims, "1-someotherbirth.json");
  await writeFile(stale, JSON.stringify({ state: "holding", url: "http://gone" }));
  expect(await holderOf(home)).toBeUndefined();
  await using _ = await HomeClaim.take(home);
  expect(await readdir(home.claims)).toEqual([expect.stringContaining(`${process.pid}-`)]);
});
