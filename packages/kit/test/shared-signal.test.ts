/** A program may give one signal to all of its waits: Node warns of a leak at the eleventh listener of a signal. */
import { sleep, within } from "@ropeway/core/internal";
import { afterAll, expect, test } from "vitest";
import { Chat } from "../src/chat/index.ts";
import { Lock } from "../src/lock/index.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { Semaphore } from "../src/semaphore/index.ts";
import { twoConnections } from "./two-connections.ts";

const { redis, sized } = await twoConnections("shared");
const warnings: string[] = [];
const onWarning = ({ name }: Error) => warnings.push(name);
process.on("warning", onWarning);
afterAll(() => process.off("warning", onWarning));

test("many waits that share a signal have one listener, and all of them end with it", async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const [lock, semaphore] = [new Lock(redis, "l"), new Semaphore(redis, "s")];
  const held = [await lock.acquire(), await semaphore.acquire()];
  const never = new Promise(() => {});
  const waits: Promise<unknown>[] = [];
  for (let i = 0; i < 12; i++) {
    waits.push(lock.acquire({ signal }), semaphore.acquire({ signal }));
    waits.push(new Mailbox(redis, `m${i}`).receive({ waitMs: null, signal }));
    waits.push(new Chat(redis).feed(`u${i}`, { signal })[Symbol.asyncIterator]().next());
    waits.push(sleep(60_000, signal), within(never, { signal }));
  }
  const ended = Promise.allSettled(waits);
  await sized("lock-queue:{lock:l}", 12);
  await sized("s:queue", 12);
  controller.abort();
  expect(await ended).toHaveLength(72);
  await sized("lock-queue:{lock:l}", 0);
  await sized("s:queue", 0);
  for (const one of held) await one.release();
  expect(warnings).toEqual([]);
});
