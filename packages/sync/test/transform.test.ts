import { eventually, startRedis } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { SyncTask } from "../src/task.ts";
import { type Transform, transformed } from "../src/transform.ts";

const input = {
  command: "SET",
  argv: ["SET", "k", "v"].map((word) => Buffer.from(word)),
  keys: [Buffer.from("k")],
  db: 0,
  phase: "stream",
} as const;

test.each([
  ["undefined", undefined],
  ["a promise", Promise.resolve(true)],
  ["a number", 5],
  ["a string", "SET a b"],
  ["a list of strings", ["SET", "a", "b"]],
  ["an empty command", [[]]],
  ["a command without a name", [["", "a"]]],
  ["a word that is no string", [["SET", "a", 5]]],
  ["a command that ends the transaction", [["SET", "a", "1"], ["exec"]]],
  ["a command for the connection", [["SELECT", "3"]]],
])("a function that returns %s is refused with what it returned", (_, result) => {
  const run = () => transformed(() => result as never, input);
  expect(run).toThrow(expect.objectContaining({ code: "TRANSFORM_FAILED" }));
});

test("a function may keep, drop and replace a write", () => {
  const commands = [
    ["SET", "a", Buffer.from("1")],
    ["DEL", "k"],
  ] as const;
  for (const result of [true, false, [], commands]) {
    expect(transformed(() => result, input)).toBe(result);
  }
});

test.each<[string, Transform]>([
  [
    "throws",
    () => {
      throw new Error("not this one");
    },
  ],
  ["returns an empty command", () => [[]]],
])(
  "a task whose function %s ends with an error, and resumes before the write",
  async (_, transform) => {
    await using source = await startRedis({ config: ["repl-diskless-sync-delay 0"] });
    await using target = await startRedis();
    const ends = { from: source.url, to: target.url, name: "transform" };
    const isStream: Transform = (write) => (write.phase === "stream" ? transform(write) : true);
    await using task = new SyncTask({ ...ends, transform: isStream });
    task.on("error", () => {});
    await task.start();
    await eventually(() => expect(task.status).toBe("COMMANDRUNNING"));
    await source.command("INCR", "n");
    await expect(task.finished).rejects.toMatchObject({ code: "TRANSFORM_FAILED" });
    await using next = new SyncTask({ ...ends, once: true });
    await next.start();
    expect(await next.finished).toMatchObject({ fullResyncs: 0 });
    expect(await target.command("GET", "n")).toBe("1");
  },
);
