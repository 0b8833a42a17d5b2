import { deferred } from "@ropeway/core/internal";
import { expect, test } from "vitest";
import type { CallContext } from "../src/index.ts";
import { all, Stage } from "./stage.ts";

const stage = await Stage.forFile();

test("a stream that its reader has whole is forgotten by its worker", async () => {
  const ended = deferred<AbortSignal>();
  const silent = deferred<void>();
  await stage.serve(
    {
      async *one(_: unknown, { signal }: CallContext) {
        ended.resolve(signal);
        yield 1;
      },
      async *other(_: unknown, { signal }: CallContext) {
        signal.addEventListener("abort", () => silent.resolve(), { once: true });
        yield 1;
        await silent.promise;
      },
    },
    { streamIdleMs: 2_000 },
  );
  const client = await stage.client();
  await expect(all(client.stream("demo.one"))).resolves.toEqual([1]);
  // A stream that began later, and whose reader is silent, is given up: the first would have been before it.
  const text = `{"id":"x","version":"2","method":"other","rt":"/api/t/reply/nobody","st":5,"params":[]}`;
  await stage.server.command("LPUSH", "/api/t/request/demo", text);
  await silent.promise;
  expect((await ended.promise).aborted).toBe(false);
});
