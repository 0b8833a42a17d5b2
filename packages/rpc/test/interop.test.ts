/**
 * The documented wires, followed to the letter by a client that knows nothing of ours: every command
 * below is one that the seed documents show, sent over a connection of the testkit's own.
 */
import { eventually } from "@ropeway/testkit";
import { describe, expect, test } from "vitest";
import { KwKeys, NAMESPACES } from "../src/internal.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();

const plain = (...args: string[]) => stage.server.command(...args);
const json = (value: unknown) => JSON.parse(String(value));

/** A worker written to the document: BRPOP, run, LPUSH, EXPIRE. */
async function serveOnce(
  run: (call: { id: string; params: unknown[] }) => object | undefined,
): Promise<string> {
  const popped = (await plain("BRPOP", "/api/t/request/user", "10")) as string[];
  const call = json(popped[1]);
  const answer = run(call);
  if (answer !== undefined)
    await plain("LPUSH", `/api/t/response/${call.id}`, JSON.stringify(answer));
  return call.id;
}

describe("jsonrpc: a plain client calls our server", () => {
  test("a call is answered under its own response key, which expires", async () => {
    await stage.serve({ add_user: ([name, password]: unknown[]) => `${name}/${password}` });
    const call = { id: "u-1", version: "2", method: "add_user", params: ["sdm", "password"] };
    await plain("LPUSH", "/api/t/request/demo", JSON.stringify(call));
    await eventually(async () => expect(await plain("LLEN", "/api/t/response/u-1")).toBe(1));
    expect(await plain("TTL", "/api/t/response/u-1")).toBeGreaterThan(100);
    const [, answer] = (await plain("BRPOP", "/api/t/response/u-1", "10")) as string[];
    expect(answer).toBe('{"id":"u-1","result":"sdm/password"}');
  });

  test("an error is answered in JSON-RPC's shape", async () => {
    await stage.serve({
      login: () => {
        throw new Error("wrong password");
      },
    });
    await plain("LPUSH", "/api/t/request/demo", '{"id":"u-2","version":"2","method":"login"}');
    const [, answer] = (await plain("BRPOP", "/api/t/response/u-2", "10")) as string[];
    expect(json(answer)).toEqual({
      id: "u-2",
      error: {
        code: -32000,
        message: "wrong password",
        data: { name: "Error", traceback: expect.stringContaining("Error: wrong password") },
      },
    });
  });

  test("a notification runs and leaves no response", async () => {
    const seen: unknown[] = [];
    await stage.serve({ add_user: (params) => seen.push(params) });
    const call = { id: "u-3", notification: true, version: "2", method: "add_user", params: ["a"] };
    await plain("LPUSH", "/api/t/request/demo", JSON.stringify(call));
    await eventually(() => expect(seen).toEqual([["a"]]));
    await plain("LPUSH", "/api/t/request/demo", '{"id":"u-4","method":"add_user","params":["b"]}');
    await plain("BRPOP", "/api/t/response/u-4", "10");
    expect(await plain("EXISTS", "/api/t/response/u-3")).toBe(0);
  });

  test("progress is pushed to the process list, which expires, and short polls find nothing until it is done", async () => {
    let finish: (value: string) => void = () => {};
    await stage.serve({
      build: (_params, context) => {
        context.progress(0.011, "begun");
        context.progress(0.562, "half");
        return new Promise((resolve) => {
          finish = resolve;
        });
      },
    });
    await plain("LPUSH", "/api/t/request/demo", '{"id":"u-5","method":"build","track_process":1}');
    await eventually(async () => expect(await plain("LLEN", "/api/t/process/u-5")).toBe(2));
    expect(await plain("TTL", "/api/t/process/u-5")).toBeGreaterThan(100);
    expect(json(await plain("RPOP", "/api/t/process/u-5"))).toEqual({
      time: expect.any(Number),
      percent: 0.011,
      message: "begun",
    });
    expect(json(await plain("RPOP", "/api/t/process/u-5")).percent).toBe(0.562);
    expect(await plain("RPOP", "/api/t/response/u-5")).toBeNull();
    finish("built");
    expect(json(((await plain("BRPOP", "/api/t/response/u-5", "10")) as string[])[1]).result).toBe(
      "built",
    );
  });

  test("without track_process nothing is pushed to the process list", async () => {
    await stage.serve({ build: (_params, context) => context.progress(0.5) });
    await plain("LPUSH", "/api/t/request/demo", '{"id":"u-6","method":"build"}');
    await plain("BRPOP", "/api/t/response/u-6", "10");
    expect(await plain("EXISTS", "/api/t/process/u-6")).toBe(0);
  });

  test("the registry shows namespace, service, description, worker and group", async () => {
    await stage.serve({ echo: () => 1 }, { node: "n1", group: "g" });
    expect(await plain("SMEMBERS", NAMESPACES)).toEqual(["t"]);
    expect(await plain("SMEMBERS", "/api/t/services")).toEqual(["demo"]);
    expect(json(await plain("HGET", "/api/t/desc/demo", "echo"))).toMatchObject({
      doc: "",
      args: [],
      return: "any",
    });
    expect(json(await plain("GET", "/api/t/works/demo:n1"))).toMatchObject({ node: "n1" });
    expect(await plain("PTTL", "/api/t/works/demo:n1")).toBeGreaterThan(1_000);
    expect(await plain("PTTL", "/api/t/groups/g:n1")).toBeGreaterThan(1_000);
    await stage.clear();
    expect(await plain("EXISTS", "/api/t/works/demo:n1", "/api/t/groups/g:n1")).toBe(0);
  });

  test("a session's list is served by its node, before the shared list", async () => {
    const seen: string[] = [];
    const push = (list: string, id: string) =>
      plain("LPUSH", list, JSON.stringify({ id, method: "see", params: [id] }));
    await push("/api/t/request/demo", "shared");
    await push("/api/t/sess_req/g:n1/demo", "sticky");
    await stage.serve(
      { see: ([id]: [string]) => seen.push(id) },
      { node: "n1", group: "g", concurrency: 1 },
    );
    await plain("BRPOP", "/api/t/response/shared", "10");
    await plain("BRPOP", "/api/t/response/sticky", "10");
    expect(seen).toEqual(["sticky", "shared"]);
  });

  test("a legacy caller of a streaming method gets all of it in one answer", async () => {
    await stage.serve({
      async *count() {
        yield* [1, 2, 3];
      },
    });
    await plain("LPUSH", "/api/t/request/demo", '{"id":"u-7","method":"count"}');
    const [, answer] = (await plain("BRPOP", "/api/t/response/u-7", "10")) as string[];
    expect(json(answer).result).toEqual([1, 2, 3]);
  });
});

describe("jsonrpc: our client calls a plain worker", () => {
  test("the call is the documented one, with a UUID and no reply list, and its answer is found", async () => {
    const client = await stage.client();
    const call = client.call("user.add_user", ["sdm", "password"]);
    let seen: object = {};
    await serveOnce((message) => {
      seen = message;
      return { id: message.id, result: 7 };
    });
    await expect(call).resolves.toBe(7);
    expect(seen).toEqual({
      dl: expect.any(Number),
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/),
      version: "2",
      method: "add_user",
      to: 10_000,
      params: ["sdm", "password"],
    });
  });

  test("an error answer rejects, and many calls wait on two connections", async () => {
    const client = await stage.client();
    const calls = Array.from({ length: 50 }, (_, i) => client.call("user.get", [i]));
    const settled = Promise.allSettled(calls);
    for (let i = 0; i < 50; i++) {
      await serveOnce(({ id, params }) =>
        params[0] === 13
          ? { id, error: { code: -32602, message: "unlucky" } }
          : { id, result: params[0] },
      );
    }
    const outcomes = await settled;
    expect(outcomes[12]).toEqual({ status: "fulfilled", value: 12 });
    expect(outcomes[13]).toMatchObject({ reason: { code: "INVALID_PARAMS", message: "unlucky" } });
    expect((await stage.server.clients()).length).toBeLessThanOrEqual(2);
  });

  test("submit, short poll, progress and long poll work with a plain worker", async () => {
    const client = await stage.client();
    const ticket = await client.submit("user.build", []);
    expect(await client.poll(ticket)).toBeNull();
    const [, id = ""] = ticket.split("/");
    const [, text] = (await plain("BRPOP", "/api/t/request/user", "10")) as string[];
    expect(json(text)).toMatchObject({ id, track_process: 1 });
    const reports = all(client.progress(ticket));
    for (const percent of [0.25, 0.75]) {
      const report = JSON.stringify({ time: 1, percent, message: "m" });
      await plain("LPUSH", `/api/t/process/${id}`, report);
    }
    const polled = client.poll(ticket, { waitMs: 5_000 });
    await plain("LPUSH", `/api/t/response/${id}`, JSON.stringify({ id, result: "ok" }));
    await expect(polled).resolves.toEqual({ result: "ok" });
    expect((await reports).map(({ percent }) => percent)).toEqual([0.25, 0.75]);
  });

  test("a notification keeps its id and is marked", async () => {
    const client = await stage.client();
    await client.notify("user.add_user", ["a"]);
    const call = json(await plain("RPOP", "/api/t/request/user"));
    expect(call).toMatchObject({ id: expect.any(String), notification: true });
  });

  test("a plain worker beside ours gets its calls answered, registered or not", async () => {
    await stage.serve({ echo: ([value]: unknown[]) => value });
    const client = await stage.client();
    await client.call("demo.echo", [1]);
    await client.discover();
    await stage.clear();
    await plain("SET", "/api/t/works/demo:n9", '{"caps":["rt"]}'); // ours, it says, but it is not
    await plain("ZADD", "/api/t/index/works/demo", "1e15", "n9");
    const other = await stage.client();
    await other.discover();
    const call = other.call("demo.echo", [2]);
    const [, text] = (await plain("BRPOP", "/api/t/request/demo", "10")) as string[];
    const { id, rt } = json(text);
    expect(rt).toEqual(expect.any(String));
    await plain("LPUSH", `/api/t/response/${id}`, JSON.stringify({ id, result: "from the other" }));
    await expect(call).resolves.toBe("from the other");
    const next = other.call("demo.echo", [3]);
    const [, again] = (await plain("BRPOP", "/api/t/request/demo", "10")) as string[];
    expect(json(again).rt).toBeUndefined(); // it has learned
    const answer = JSON.stringify({ id: json(again).id, result: 3 });
    await plain("LPUSH", `/api/t/response/${json(again).id}`, answer);
    await expect(next).resolves.toBe(3);
  });

  test("sessions of ours and the documented keys agree on the node", async () => {
    await plain("SET", "/api/t/groups/g:n7", "1", "EX", "60");
    const client = await stage.client();
    const session = client.session("g", "c1");
    const call = session.call("user.who");
    const [list, text] = (await plain("BRPOP", "/api/t/sess_req/g:n7/user", "10")) as string[];
    expect(list).toBe("/api/t/sess_req/g:n7/user");
    expect(await plain("GET", "/api/t/sess_map/g:c1")).toBe("g:n7");
    expect(await plain("PTTL", "/api/t/sess_map/g:c1")).toBeGreaterThan(1_000);
    const { id } = json(text);
    await plain("LPUSH", `/api/t/response/${id}`, JSON.stringify({ id, result: "n7" }));
    await expect(call).resolves.toBe("n7");
  });
});

describe("kw", () => {
  const kw = { dialect: "kw", prefix: "p" } as const;

  test("a plain client calls our server: result, error, null, missing kw", async () => {
    await stage.serve(
      {
        func1: ({ arg1, arg2 }: { arg1: string; arg2: string }) => arg1 + arg2,
        fail: () => {
          throw new RangeError("'unknown-key'");
        },
        nothing: () => null,
      },
      kw,
    );
    const ask = async (func: string, message: object) => {
      await plain(
        "RPUSH",
        `p:${func}:calls`,
        JSON.stringify({ id: "i", ts: "2026-01-01", ...message }),
      );
      const [, answer] = (await plain("BLPOP", `p:${func}:result:i`, "10")) as string[];
      return json(answer);
    };
    const done = await ask("func1", { kw: { arg1: 1, arg2: 2 } });
    expect(done).toEqual({ ts: expect.stringMatching(/^\d{4}-\d\d-\d\dT/), res: 3 });
    expect(await ask("fail", { kw: {} })).toMatchObject({
      err: "RangeError: 'unknown-key'",
      exc: "RangeError: 'unknown-key'",
    });
    expect(await ask("nothing", {})).toMatchObject({ res: null });
  });

  test("results expire, and calls answered to nobody do not pile up", async () => {
    await stage.serve({ f: () => 1 }, { ...kw, resultTtlSeconds: 10 });
    await plain("RPUSH", "p:f:calls", '{"id":"i","kw":{}}');
    await eventually(async () => expect(await plain("TTL", "p:f:result:i")).toBeGreaterThan(0));
    expect(await plain("TTL", "p:f:result:i")).toBeLessThanOrEqual(10);
  });

  test("our client calls a plain worker, which may answer err, exc or res", async () => {
    const client = await stage.client(kw);
    for (const [answer, outcome] of [
      [
        { res: 5, verbose: false },
        { status: "fulfilled", value: 5 },
      ],
      [{ err: "KeyError: 'x'", err_traceback: "..." }, { status: "rejected" }],
      [{ exc: "KeyError('x')" }, { status: "rejected" }],
      [{ res: null }, { status: "fulfilled", value: null }],
    ] as const) {
      const call = Promise.allSettled([client.call("func1", { arg1: 1 })]);
      const [, text] = (await plain("BLPOP", "p:func1:calls", "10")) as string[];
      const message = json(text);
      expect(message).toMatchObject({
        id: expect.any(String),
        ts: expect.any(String),
        kw: { arg1: 1 },
      });
      await plain("RPUSH", `p:func1:result:${message.id}`, JSON.stringify({ ts: "x", ...answer }));
      expect((await call)[0]).toMatchObject(outcome);
    }
    expect((await stage.server.clients()).length).toBeLessThanOrEqual(2);
  });

  test("a call without a server times out, as does one of an unknown function", async () => {
    const client = await stage.client({ ...kw, timeoutMs: 100 });
    await expect(client.call("nobody", {})).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(await plain("TTL", "p:nobody:calls")).toBeGreaterThan(60);
  });

  test("functions are popped in turn, one further each time", async () => {
    const popped: string[] = [];
    for (const func of ["a", "b", "c"]) {
      for (let i = 0; i < 3; i++) await plain("RPUSH", `p:${func}:calls`, `{"id":"${func}${i}"}`);
    }
    const see = (name: string) => () => popped.push(name);
    await stage.serve({ c: see("c"), a: see("a"), b: see("b") }, { ...kw, concurrency: 1 });
    await eventually(() => expect(popped).toHaveLength(9));
    expect(popped.join("")).toBe("abcabcabc");
  });

  test("a server's heartbeat stands under its kind and id", async () => {
    await stage.serve({ f: () => 1 }, { ...kw, node: "42" });
    const key = new KwKeys("p").works("demo", "42");
    expect(key).toBe("p:demo:42:alive");
    expect(await plain("PTTL", key)).toBeGreaterThan(1_000);
    await stage.clear();
    expect(await plain("EXISTS", key)).toBe(0);
  });

  test("notifications, progress and polling work on this wire too", async () => {
    const client = await stage.client(kw);
    await client.notify("f", { a: 1 });
    expect(json(await plain("LPOP", "p:f:calls"))).toMatchObject({
      no_response: true,
      kw: { a: 1 },
    });
    await stage.serve(
      {
        f: (_kw, context) => {
          context.progress(0.5, "half");
          return "done";
        },
      },
      kw,
    );
    const seen: number[] = [];
    const onProgress = ({ percent }: { percent: number }) => void seen.push(percent);
    await expect(client.call("f", {}, { onProgress })).resolves.toBe("done");
    const ticket = await client.submit("f", {});
    await expect(client.poll(ticket, { waitMs: 3_000 })).resolves.toEqual({ result: "done" });
  });

  test("a function may be called reply: its keys are not taken for reply lists", async () => {
    await stage.serve(
      {
        reply: (_kw, context) => {
          context.progress(0.25, "a");
          context.progress(0.5, "b");
          return "done";
        },
      },
      kw,
    );
    const client = await stage.client(kw);
    const ticket = await client.submit("reply", {});
    await expect(client.poll(ticket, { waitMs: 3_000 })).resolves.toEqual({ result: "done" });
    const seen: number[] = [];
    for await (const { percent } of client.progress(ticket, { idleMs: 100 })) seen.push(percent);
    expect(seen).toEqual([0.25, 0.5]);
  });
});
