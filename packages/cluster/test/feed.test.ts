/** The feed that wakes the watches of one client: none sleeps over a change that another was told of. */
import { type Redis, silentLogger } from "@ropeway/core";
import { eventually } from "@ropeway/testkit";
import { expect, it } from "vitest";
import { Feed } from "../src/store/redis/feed.ts";
import { RedisStoreKeys } from "../src/store/redis/keys.ts";

/** A feed on a server whose responses to XREAD the test gives. */
function feedOf() {
  const asked: string[] = [];
  let respond = (_: unknown) => {};
  const send = (command: readonly string[], { signal }: { signal: AbortSignal }) => {
    asked.push(command.at(-1)?.split("-", 1)[0] ?? "");
    return new Promise((resolve) => {
      respond = resolve;
      signal.addEventListener("abort", () => resolve(null));
    });
  };
  const connection = { send, interrupt: () => respond(null), close: async () => {} };
  const redis = { blocking: async () => connection } as unknown as Redis;
  const keys = new RedisStoreKeys("ropeway:store", "standalone");
  const feed = new Feed({ redis, keys, logger: silentLogger });
  const grow = (revision: number) => respond([["log", [[`${revision}-0`, []]]]]);
  /** A watch that waits, and whether it has been woken. */
  const wait = (
    revision: number,
    { signal }: Pick<AbortController, "signal"> = new AbortController(),
  ) => {
    const watch = { woken: false, signal };
    void feed.wait(revision, signal).then(() => {
      watch.woken = true;
    });
    return watch;
  };
  return { feed, asked, grow, wait };
}

const soon = () => new Promise((resolve) => setImmediate(resolve));

it("wakes every watch that was busy when the log grew, each once", async () => {
  const { feed, asked, grow, wait } = feedOf();
  const first = wait(10);
  await eventually(() => expect(asked).toEqual(["10"]));
  grow(11);
  await eventually(() => expect(asked).toEqual(["10", "11"]));
  expect(first.woken).toBe(true);
  // Two that had read up to 10 before: the blocked XREAD begins behind 11.
  const [second, third] = [wait(10), wait(10)];
  await soon();
  expect([second.woken, third.woken]).toEqual([true, true]);
  // A server that has lost its data has no 11: they do not read without end.
  const again = wait(10, second);
  await soon();
  expect(again.woken).toBe(false);
  await feed.close();
});

it("wakes a watch that waits when another has read more than it before XREAD began", async () => {
  const { feed, wait } = feedOf();
  const behind = wait(10);
  const ahead = wait(11);
  await soon();
  expect([behind.woken, ahead.woken]).toEqual([true, false]);
  await feed.close();
});
