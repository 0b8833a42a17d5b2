/** The one rule of standard input: `-` reads a payload from it, in every command that takes one. */
import { Readable } from "node:stream";
import { RpcServer } from "@ropeway/rpc";
import { redisForFile } from "@ropeway/testkit/redis-for-file";
import { beforeEach, expect, test } from "vitest";
import { createProgram } from "../../src/program.ts";
import { speak } from "../spoken.ts";

const { server, redis } = await redisForFile();
const URL = "http://127.0.0.1:9/digest";

beforeEach(() => server.command("FLUSHALL"));

const ropeway = (args: readonly string[], input: string, terminal = false) =>
  speak(args, {
    env: { REDIS_URL: server.url, ROPEWAY_MERGE_ALLOW: "loopback" },
    stdin: Object.assign(Readable.from([input]), { isTTY: terminal }),
  });
const printed = async (line: string, input = ""): Promise<string> => {
  const { code, stdout, stderr } = await ropeway(line.split(" "), input);
  if (code !== 0) throw new Error(stderr);
  return stdout;
};

test("the data of a job and of a recurring job", async () => {
  await printed("jobs add mail send - --id a --delay 1h", '{"to":\n"ann"}\n');
  expect(JSON.parse(await printed("jobs show mail a --json")).data).toEqual({ to: "ann" });
  await printed("jobs update mail a --data -", "[1]\n");
  expect(JSON.parse(await printed("jobs show mail a --json")).data).toEqual([1]);
  await printed("jobs schedule mail nightly send - --every 1h", '{"n":1}');
  const [schedule] = JSON.parse(await printed("jobs schedules mail --json")).items;
  expect(schedule.data).toEqual({ n: 1 });
  expect(await ropeway(["jobs", "add", "mail", "send", "-"], "no JSON")).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('data is "no JSON"'),
  });
});

test("the body of an item and of a recurring push, byte for byte", async () => {
  await printed(`merge push k ${URL} - --ontime +1h`, '{"n":1}\n');
  await printed(`merge push k ${URL} --ontime +1h`, '{"n":2}');
  const [batch] = JSON.parse(await printed(`merge peek k ${URL} --json`)).items;
  expect(batch.oldest.map(({ body }: { body: string }) => body)).toEqual(['{"n":1}\n', '{"n":2}']);
  await printed(`merge schedule s k ${URL} - --every 1h`, "1");
  const [schedule] = JSON.parse(await printed("merge schedules --json")).items;
  expect(schedule.schedule.body).toBe("1");
});

test("the params of a call", async () => {
  await using server = new RpcServer(redis).add("sum", { of: (params: object) => params });
  await server.start();
  expect(await printed("rpc call sum.of -", '{"a":1}\n')).toBe('{"a":1}\n');
});

test("a message", async () => {
  await printed("chat create joe ann - --id lobby", '{"n":1}\n');
  await printed("chat send lobby joe -", "two\nlines\n");
  const { items } = JSON.parse(await printed("chat read lobby --json"));
  expect(items.map(({ message }: { message: unknown }) => message)).toEqual([
    "two\nlines",
    { n: 1 },
  ]);
});

test("a terminal is told that the command reads, also with --json", async () => {
  for (const json of [[], ["--json"]]) {
    const { stderr } = await ropeway(["jobs", "add", "mail", "send", "-", ...json], "1", true);
    expect(stderr).toMatch(/^Reading the data from standard input; end it with Ctrl-D/);
  }
});

test("every payload says in its help that - reads standard input", () => {
  const payloads = ["data", "body", "params", "message"];
  const found = createProgram().commands.flatMap((noun) =>
    noun.commands.flatMap((verb) =>
      verb.registeredArguments
        .filter((argument) => payloads.includes(argument.name()))
        .map(({ description }) => description),
    ),
  );
  expect(found.length).toBeGreaterThan(5);
  for (const description of found)
    expect(description).toMatch(/- .*standard input|standard input.* - /);
});
