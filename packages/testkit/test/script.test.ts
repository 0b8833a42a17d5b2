import { runScript, spawnScript } from "@ropeway/testkit";
import { expect, test } from "vitest";

const ECHO = new URL("./echo.fixture.ts", import.meta.url);

test.concurrent("a script gets arguments, environment and lines, and its lines are read", async () => {
  await using script = await spawnScript(ECHO, { args: ["one"], env: { COLOUR: "red" } });
  await script.waitForLine(/^ready one red$/);
  script.send("hello");
  script.send("hello");
  await script.waitForLine(/^echo hello$/);
  await script.waitForLine(/^echo hello$/);
  script.send("quit");
  await expect(script.exited).resolves.toEqual({ code: 3, signal: null });
  const lines: string[] = [];
  for await (const line of script.lines) lines.push(line);
  expect(lines).toEqual(["ready one red", "echo hello", "echo hello"]);
});

test.concurrent("waiting for a line that cannot come any more fails with the whole output", async () => {
  await using script = await spawnScript(ECHO);
  script.send("complain");
  script.send("quit");
  await expect(script.waitForLine(/never/)).rejects.toThrow("a complaint on standard error");
});

test.concurrent("kill9 ends a script at once, without its own shutdown", async () => {
  await using script = await spawnScript(ECHO);
  await script.waitForLine(/^ready/);
  await expect(script.kill9()).resolves.toEqual({ code: null, signal: "SIGKILL" });
  expect(script.running).toBe(false);
});

test.concurrent("terminate lets a script end in its own way", async () => {
  await using script = await spawnScript(ECHO);
  await script.waitForLine(/^ready/);
  await expect(script.terminate()).resolves.toEqual({ code: 4, signal: null });
});

test.concurrent("a paused script goes on where it was when resumed", async () => {
  await using script = await spawnScript(ECHO);
  await script.waitForLine(/^ready/);
  script.pause();
  script.send("late");
  await expect(script.waitForLine(/late/, { withinMs: 100 })).rejects.toThrow("within 100 ms");
  script.resume();
  await script.waitForLine(/^echo late$/);
});

test.concurrent("a script that ended by itself needs no close", async () => {
  const script = await spawnScript(ECHO);
  script.send("quit");
  await script.exited;
});

test.concurrent("a script that runs to its end gives its lines, or fails with its whole output", async () => {
  const END = new URL("./end.fixture.ts", import.meta.url);
  await expect(runScript(END, { args: ["0"] })).resolves.toEqual(["one", "two"]);
  const failed = runScript(END, { args: ["7"] });
  await expect(failed).rejects.toMatchObject({ code: "SCRIPT_FAILED" });
  await expect(failed).rejects.toThrow(/code 7[\s\S]*two/);
});
