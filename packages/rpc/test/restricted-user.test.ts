import { connect } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { expect, test } from "vitest";
import { createClient, RpcServer } from "../src/index.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();

const handlers = {
  echo: ([value]: unknown[]) => value,
  async *count([n]: [number]) {
    for (let i = 1; i <= n; i++) yield i;
  },
};

/** A connection of a user without channels, dangerous commands, and keys of others. */
async function restricted() {
  const rules = ["resetkeys", "~/api/t/*", "~/api/ns", "resetchannels", "+@all", "-@dangerous"];
  await stage.server.command("ACL", "SETUSER", "app", "on", ">pw", ...rules);
  return stage.keep(await connect(stage.server.url.replace("redis://", "redis://app:pw@")));
}

test("a user without channels and dangerous commands calls, serves, streams and has sessions", async () => {
  const redis = await restricted();
  const server = new RpcServer(redis, { ns: "t", node: "n1", group: "g" });
  stage.keep(await server.add("demo", handlers as never).start());
  const client = stage.keep(await createClient(redis, { ns: "t" }));
  await expect(client.call("demo.echo", [1])).resolves.toBe(1);
  await expect(all(client.stream("demo.count", [300]))).resolves.toHaveLength(300);
  await expect(client.session("g", "c").call("demo.echo", [2])).resolves.toBe(2);
  expect((await client.stats()).connections).toBeUndefined();
});

test("a client that may not run CLIENT UNBLOCK waits for short times instead", async () => {
  const redis = await restricted();
  const client = stage.keep(await createClient(redis, { ns: "t", replies: "keys" }));
  const first = client.call("user.first"); // the reader waits for its key now
  const [, one] = (await stage.server.command("BRPOP", "/api/t/request/user", "10")) as string[];
  const second = client.call("user.second", [], { timeoutMs: 4_000 }); // less than a pop may block
  const [, two] = (await stage.server.command("BRPOP", "/api/t/request/user", "10")) as string[];
  for (const [text, result] of [
    [two, 2],
    [one, 1],
  ] as const) {
    const { id } = JSON.parse(text ?? "");
    await stage.server.command("LPUSH", `/api/t/response/${id}`, JSON.stringify({ id, result }));
  }
  await expect(Promise.all([first, second])).resolves.toEqual([1, 2]);
});

test.each(["TIMEOUT", "ERROR"])(
  "waits that somebody else unblocks with %s go on",
  async (reason) => {
    await stage.serve(handlers as never);
    const client = await stage.client();
    await client.call("demo.echo", [1]);
    const blocked = async () => {
      const list = String(await stage.server.command("CLIENT", "LIST"));
      const lines = list.split("\n").filter((line) => /flags=\w*b/.test(line));
      return lines.map((line) => /id=(\d+)/.exec(line)?.[1] ?? "");
    };
    await eventually(async () => expect(await blocked()).toHaveLength(2));
    for (const id of await blocked()) await stage.server.command("CLIENT", "UNBLOCK", id, reason);
    await expect(client.call("demo.echo", [2])).resolves.toBe(2);
  },
);
