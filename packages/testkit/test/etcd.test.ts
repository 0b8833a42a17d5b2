import { type EtcdMember, startEtcd } from "@ropeway/testkit";
import { expect, test } from "vitest";

const base64 = (text: string) => Buffer.from(text).toString("base64");

async function put(member: EtcdMember, key: string, value: string): Promise<void> {
  await member.call("/v3/kv/put", { key: base64(key), value: base64(value) });
}

async function get(member: EtcdMember, key: string): Promise<string | undefined> {
  const { kvs } = await member.call("/v3/kv/range", { key: base64(key) });
  const [found] = (kvs ?? []) as { value: string }[];
  return found && Buffer.from(found.value, "base64").toString();
}

test.concurrent("a single etcd keeps its address and data through kill and restart", async () => {
  await using etcd = await startEtcd();
  const { first } = etcd;
  expect(etcd.urls).toEqual([`http://127.0.0.1:${first.port}`]);
  await put(first, "k", "v");
  await first.kill9();
  expect(first.running).toBe(false);
  await expect(get(first, "k")).rejects.toThrow("ECONNREFUSED");
  await first.start();
  await expect(get(first, "k")).resolves.toBe("v");
  await first.restart();
  await expect(get(first, "k")).resolves.toBe("v");
});

test.concurrent("three members elect a leader and another one when it dies", async () => {
  await using etcd = await startEtcd({ members: 3 });
  const first = await etcd.leader();
  await put(first, "k", "v");
  await first.kill9();
  const second = await etcd.leader();
  expect(second).not.toBe(first);
  await expect(get(second, "k")).resolves.toBe("v");
  await first.start();
  await expect(etcd.leader()).resolves.toBe(second);
  await expect(get(first, "k")).resolves.toBe("v");
});

test.concurrent("a flag that etcd refuses is reported with its own words", async () => {
  await expect(startEtcd({ args: ["--no-such-flag"] })).rejects.toThrow("no-such-flag");
});
