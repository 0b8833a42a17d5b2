import { expect, test } from "vitest";
import { ReplyWriter } from "../src/server/reply-writer.ts";
import { JsonRpcDialect } from "../src/wire/jsonrpc-dialect.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();
const dialect = new JsonRpcDialect("writer");

function writer(): ReplyWriter {
  return new ReplyWriter(stage.redis, dialect, { ttlSeconds: 60, maxMessageBytes: 1_000_000 });
}

/** The ids of the responses in a list, oldest first. */
async function idsIn(list: string): Promise<string[]> {
  const elements = (await stage.server.command("LRANGE", list, "0", "-1")) as string[];
  const messages = elements.reverse().flatMap((text) => JSON.parse(text) as { id: string });
  return messages.map(({ id }) => id);
}

test("responses of many events and lists are sent again by their ids, to their own lists", async () => {
  const replies = writer();
  const lists = ["one", "two"].map((name) => dialect.keys.reply(name));
  for (let i = 0; i < 100; i++) {
    const list = lists[i % 7 === 0 ? 1 : 0] as string;
    replies.remember(list, [dialect.encodeResult(`id.${i}`, String(i))]);
  }
  replies.again(["id.0", "id.1", "id.99", "another"]);
  await replies.drained();
  expect(await idsIn(lists[0] as string)).toEqual(["id.1", "id.99"]);
  expect(await idsIn(lists[1] as string)).toEqual(["id.0"]);
});

test("only the latest 4 MiB of responses are kept", async () => {
  const replies = writer();
  const list = dialect.keys.reply("bounded");
  const result = JSON.stringify("x".repeat(10_000));
  for (let i = 0; i < 1_000; i++) replies.remember(list, [dialect.encodeResult(`id.${i}`, result)]);
  replies.again(Array.from({ length: 1_000 }, (_, i) => `id.${i}`));
  await replies.drained();
  const ids = await idsIn(list);
  const kept = ids.length * result.length;
  expect(kept).toBeLessThanOrEqual(4 * 1_024 * 1_024);
  expect(kept).toBeGreaterThan(3.9 * 1_024 * 1_024);
  expect(ids.at(-1)).toBe("id.999");
});

test("only elements that can contain a requested response are parsed", async () => {
  const replies = writer();
  const list = dialect.keys.reply("searched");
  replies.remember(list, ["neither JSON nor asked for", dialect.encodeResult("cl.10", "1")]);
  replies.remember(list, [`[${[11, 12].map((n) => dialect.encodeResult(`cl.${n}`, "2"))}]`]);
  replies.remember(dialect.keys.reply("quoted"), [dialect.encodeResult('q"1', "3")]);
  for (const ids of [["cl.12", "cl.10"], ["cl.11"], ['q"1']]) replies.again(ids);
  await replies.drained();
  expect((await idsIn(list)).sort()).toEqual(["cl.10", "cl.11", "cl.12"]);
  expect(await idsIn(dialect.keys.reply("quoted"))).toEqual(['q"1']);
});
