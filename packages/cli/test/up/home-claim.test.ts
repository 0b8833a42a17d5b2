import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Script, spawnScript } from "@ropeway/testkit";
import { expect, test, vi } from "vitest";
import { type Home, openHome } from "../../src/up/home.ts";
import { HomeClaim, holderOf } from "../../src/up/home-claim.ts";
import { kernelId, PresenceSocket, touch } from "../../src/up/presence.ts";
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
  expect((await readdir(home.claims)).filter((name) => name.endsWith(".json"))).toHaveLength(1);
  await claim.tell({ url: "http://here" });
  expect(await holderOf(home)).toMatchObject({ pid: process.pid, url: "http://here" });
});

/** Writes the claim of somebody else. */
async function writeClaim(home: Home, token: string, claim: object): Promise<string> {
  const path = join(home.claims, `${token}.json`);
  await writeFile(path, JSON.stringify({ state: "holding", pid: 7, host: "other", ...claim }));
  return path;
}

test("a claim in another container holds as long as its process listens, whatever its pid", async () => {
  await using place = await makeHome();
  const home = await openHome(place.path);
  const kernel = await kernelId();
  // The pid is one that nobody has here, as in another PID namespace.
  await writeClaim(home, "feed", { kernel, socket: true, pid: 4_194_305, url: "http://there" });
  const socket = await PresenceSocket.open(join(home.claims, "feed.sock"));
  await expect(HomeClaim.take(home)).rejects.toMatchObject({
    code: "ALREADY_RUNNING",
    message: expect.stringContaining("(pid 4194305 on other)"),
  });
  expect(await holderOf(home)).toMatchObject({ url: "http://there" });
  await socket?.close();
  expect(await holderOf(home)).toBeUndefined();
  await using _ = await HomeClaim.take(home);
});

test("a home that somebody else is asking for is not taken, until they withdraw", async () => {
  await using place = await makeHome();
  const home = await openHome(place.path);
  const kernel = await kernelId();
  const path = await writeClaim(home, "feed", { kernel, socket: true, state: "asking" });
  const socket = await PresenceSocket.open(join(home.claims, "feed.sock"));
  await expect(HomeClaim.take(home)).rejects.toMatchObject({ code: "ALREADY_RUNNING" });
  await rm(path);
  await socket?.close();
  await using _ = await HomeClaim.take(home);
});

test("a claim of another host holds as long as its file is touched", async () => {
  await using place = await makeHome();
  const home = await openHome(place.path);
  const path = await writeClaim(home, "feed", { kernel: "another", socket: true });
  const beating = setInterval(() => void touch(path, new Date()), 100);
  const waits: string[] = [];
  const options = { watchMs: 2_000, onWait: (sentence: string) => waits.push(sentence) };
  await expect(HomeClaim.take(home, options)).rejects.toMatchObject({ code: "ALREADY_RUNNING" });
  expect(waits).toEqual([`Waiting 2 s: other may be using ${home.path} (pid 7) ...`]);
  clearInterval(beating);
  await using _ = await HomeClaim.take(home, options);
});

test("a holder whose claim was removed while it slept is told that the home is lost", async () => {
  await using place = await makeHome();
  const home = await openHome(place.path);
  await using claim = await HomeClaim.take(home);
  for (const name of await readdir(home.claims)) {
    if (name.endsWith(".json")) await rm(join(home.claims, name));
  }
  await expect(claim.lost).rejects.toMatchObject({ code: "HOME_LOST" });
});

test("the path of a home may be longer than a socket's address", async () => {
  await using place = await makeHome();
  const home = await openHome(join(place.path, "x".repeat(120)));
  await using _ = await HomeClaim.take(home);
  await expect(HomeClaim.take(home)).rejects.toMatchObject({ code: "ALREADY_RUNNING" });
});

test("a claim that was left behind is removed, whatever is in it", async () => {
  await using place = await makeHome();
  const home = await openHome(place.path);
  await writeClaim(home, "dead", { kernel: await kernelId(), socket: true });
  await writeFile(join(home.claims, "garbage.json"), "{");
  expect(await holderOf(home)).toBeUndefined();
  await using _ = await HomeClaim.take(home);
  expect(await readdir(home.claims)).not.toContain("dead.json");
});
