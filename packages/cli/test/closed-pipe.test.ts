// A reader that leaves, as in `ropeway merge watch | head -1`: commands that only print end.
import { spawnSync } from "node:child_process";
import { EventEmitter } from "node:events";
import { closeSync, existsSync, openSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Queue } from "@ropeway/jobs";
import { Chat } from "@ropeway/kit/chat";
import { Mailbox } from "@ropeway/kit/mailbox";
import { eventually } from "@ropeway/testkit";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { expect, test } from "vitest";
import { speak } from "./spoken.ts";

const { server, redis } = await redisForFile();
const env = { REDIS_URL: server.url };
const NODE = ["--conditions=@ropeway/source", "--import", "tsx"];

/** A standard output whose reader leaves after the first write. Later writes fail as those of a pipe do. */
class ClosedPipe extends EventEmitter {
  text = "";
  #isOpen = true;

  constructor() {
    super();
    this.on("error", () => {}); // as main.ts does
  }

  write(text: string): boolean {
    const wasOpen = this.#isOpen;
    this.#isOpen = false;
    if (wasOpen) this.text += text;
    else process.nextTick(() => this.emit("error", new Error("EPIPE")));
    return wasOpen;
  }
}

test("merge watch ends when the reader of its output has gone", async () => {
  const stdout = new ClosedPipe();
  const watching = speak(["merge", "watch"], { env, stdout });
  const attempt = { key: "k http://127.0.0.1/ POST", batch: "msg_1", attempt: 1, items: 1 };
  const rest = { bytes: 1, result: "delivered", ms: 1, at: 1 };
  const json = JSON.stringify({ ...attempt, ...rest });
  const adding = setInterval(() => {
    void server.command("XADD", "ropeway:{merge}:attempts", "*", "attempt", json);
  }, 20);
  const { code } = await watching.finally(() => clearInterval(adding));
  expect({ code, lines: stdout.text.split("\n").length }).toEqual({ code: 0, lines: 2 });
});

test("jobs watch ends when the reader of its output has gone", async () => {
  const queue = new Queue(redis, "piped");
  const watching = speak(["jobs", "watch", "piped"], { env, stdout: new ClosedPipe() });
  const adding = setInterval(() => void queue.add("a", {}), 20);
  const { code } = await watching.finally(() => clearInterval(adding));
  expect(code).toBe(0);
  await queue.close();
});

test("chat watch acknowledges no message that nobody has read", async () => {
  const chat = new Chat<string>(redis);
  const room = await chat.create({ sender: "ann", recipients: ["bob"], message: "first" });
  const stdout = new ClosedPipe();
  const watching = speak(["chat", "watch", "bob", "--acknowledge"], { env, stdout });
  await eventually(() => expect(stdout.text).toContain("first"));
  await room.send("ann", "second");
  expect((await watching).code).toBe(0);
  expect(stdout.text).not.toContain("second");
  const [pending] = (await chat.pending("bob")).items;
  expect(pending?.messages.map(({ message }) => message)).toEqual(["second"]);
});

test.each([[], ["--json"]])(
  "mailbox receive removes no message that nobody has read %j",
  async (...json) => {
    const mailbox = new Mailbox<number>(redis, `piped${json.length}`);
    for (const message of [1, 2, 3]) await mailbox.send(message);
    const stdout = new ClosedPipe();
    if (json.length > 0) stdout.write(""); // the reader has gone before the only line
    const receive = ["mailbox", "receive", mailbox.name, "--max", "3", ...json];
    expect((await speak(receive, { env, stdout })).code).toBe(0);
    const messages = (await mailbox.receive({ max: 10 })).map(({ message }) => message);
    expect(messages).toEqual([1, 2, 3]);
  },
);

test("rdb to-json ends when the reader of its output has gone", async () => {
  const cwd = await mkdtemp(join(tmpdir(), "ropeway-pipe-"));
  const fill = "for i = 1, 5000 do redis.call('SET', 'k' .. i, string.rep('x', 200)) end";
  await server.command("EVAL", fill, 0);
  await server.command("SAVE");
  await writeFile(join(cwd, "dump.rdb"), await readFile(join(server.dir, "dump.rdb")));
  const spoken = await speak(["rdb", "to-json", "dump.rdb"], { cwd, stdout: new ClosedPipe() });
  expect(spoken).toMatchObject({ code: 0, stderr: "" });
  await rm(cwd, { recursive: true });
});

test.runIf(existsSync("/dev/full"))(
  "output that no disk has room for is one sentence and a failure",
  () => {
    const main = fileURLToPath(new URL("../src/main.ts", import.meta.url));
    const full = openSync("/dev/full", "w");
    const { status, stderr } = spawnSync(process.execPath, [...NODE, main, "version"], {
      stdio: ["ignore", full, "pipe"],
      encoding: "utf8",
    });
    closeSync(full);
    expect(stderr).toMatch(/^Cannot write to standard output: ENOSPC.*\n$/);
    expect(status).toBe(1);
  },
);
