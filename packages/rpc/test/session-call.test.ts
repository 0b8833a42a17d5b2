import { expect, test } from "vitest";
import { ApplicationError, type CallContext, defineService, RpcServer } from "../src/index.ts";
import { Stage } from "./stage.ts";

const stage = await Stage.forFile();

test("a call that its schema or middleware refuses tells no handler that the session is new", async () => {
  const positive = (value: unknown) =>
    Number(value) > 0 ? { value } : { issues: [{ message: "not positive" }] };
  const slowly = async (value: unknown) => {
    await new Promise((resolve) => setTimeout(resolve, 20));
    return positive(value);
  };
  const input = (validate: (value: unknown) => unknown) =>
    ({ "~standard": { version: 1, vendor: "test", validate } }) as never;
  const typed = defineService("typed", {
    now: { input: input(positive) },
    later: { input: input(slowly) },
  });
  const isNew = (_input: unknown, { session }: CallContext) => session?.isNew;
  const server = new RpcServer(stage.redis, { ns: "t", node: "n1", group: "g" })
    .use(async (call, next) => {
      if (call.metadata.stranger !== undefined) throw new ApplicationError(1, "who?");
      return next();
    })
    .add(typed, { now: isNew, later: isNew });
  stage.keep(await server.start());
  const client = await stage.client();
  for (const method of ["typed.now", "typed.later"]) {
    const session = client.session("g", method);
    const metadata = { stranger: "1" };
    await expect(session.call(method, [1], { metadata })).rejects.toMatchObject({
      message: "who?",
    });
    // Together: the second is being validated while the first is refused.
    const calls = [-1, 2, 3].map((n) => session.call(method, [n]));
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes).toMatchObject([
      { reason: { code: "INVALID_PARAMS" } },
      { value: true },
      { value: false },
    ]);
  }
});
