import { InvalidArgumentError, InvalidNameError } from "@ropeway/core";
import { expect, test } from "vitest";
import { groupKeys, recentKey } from "../src/autocomplete/keys.ts";
import { Chat } from "../src/chat/index.ts";
import { roomKeys, seenKey } from "../src/chat/keys.ts";
import { Files } from "../src/files/index.ts";
import { transferKeys } from "../src/files/keys.ts";
import { Lock, ReadWriteLock } from "../src/lock/index.ts";
import { lockKeys } from "../src/lock/keys.ts";
import { Mailbox } from "../src/mailbox/index.ts";
import { mailboxKeys } from "../src/mailbox/keys.ts";
import { Semaphore } from "../src/semaphore/index.ts";
import { semaphoreKeys } from "../src/semaphore/keys.ts";
import { wakeListOf } from "../src/store/wake-list.ts";
import { twoConnections } from "./two-connections.ts";

const { redis, other } = await twoConnections("k");

const families = {
  lock: (prefix: string, name: string) => lockKeys(prefix, name).all,
  mailbox: (prefix: string, name: string) => Object.values(mailboxKeys(prefix, name)),
  members: (prefix: string, name: string) => {
    const { members, folded, scores, top } = groupKeys(prefix, name);
    return [members, folded, scores, top("a")];
  },
};

test.each(Object.entries(families))(
  "names that are tags of other keys have keys of their own: %s",
  (family, keysOf) => {
    for (const prefix of ["", "shop"]) {
      const tag = `{${prefix === "" ? "" : `${prefix}:`}${family}:a}`;
      const names = ["a", tag, `${tag}:`, `${tag}::`, `x${tag}`, `${tag}x`, "{a}", "{a}:"];
      const keys = names.flatMap((name) => keysOf(prefix, name));
      expect(new Set(keys).size).toBe(keys.length);
    }
  },
);

test("a mailbox whose name is the tag of another one gets none of its messages", async () => {
  const anna = new Mailbox<string>(redis, "anna", { leaseMs: 10, attempts: 1 });
  const another = new Mailbox<string>(other, "{mailbox:anna}");
  await anna.send("for anna");
  await anna.receive();
  await new Promise((resolve) => setTimeout(resolve, 20)); // the lease is over
  expect(await another.receive()).toEqual([]);
  expect(await another.counts()).toEqual({ waiting: 0, taken: 0, dead: 0 });
});

test("a writer of a lock does not end the readers of one whose name is its tag", async () => {
  const catalogue = new ReadWriteLock(redis, "{lock:a}");
  const reader = await catalogue.read.acquire();
  await using _writer = await new Lock(other, "a").acquire();
  expect(await catalogue.write.tryAcquire()).toBeUndefined();
  expect(await reader.release()).toBe(true);
});

test("a semaphore and a documented file cannot have the name of a key of another part", async () => {
  const { all, times: _own, ...parts } = semaphoreKeys("", "x");
  const { members, folded, scores, top } = groupKeys("", "a");
  const keys = [
    ...Object.values(parts),
    ...lockKeys("", "a").all,
    ...Object.values(roomKeys("", "7")),
    ...Object.values(mailboxKeys("", "a")),
    ...transferKeys("", "c", "1").all,
    ...[members, folded, scores, top("a")],
    ...[seenKey("", "u"), recentKey("", "u"), wakeListOf(redis, "").key],
  ];
  for (const key of keys) expect(() => new Semaphore(redis, key)).toThrow(InvalidNameError);
  const room = await new Chat(redis).create({ sender: "a", recipients: ["b"], message: 1 });
  const named = { receivers: ["r"], name: room.id, wire: "documented" } as const;
  await expect(new Files(redis, "msgs:").publish(nothing(), named)).rejects.toThrow(
    InvalidArgumentError,
  );
  expect((await room.history()).items).toHaveLength(1);
});

async function* nothing(): AsyncGenerator<Buffer, void> {}
