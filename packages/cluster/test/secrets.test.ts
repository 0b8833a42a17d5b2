import { expect, it } from "vitest";
import { type Json, SecretBox, splitSecrets } from "../src/secrets.ts";

const box = new SecretBox("44".repeat(32));

it("takes passwords out of URLs, lists of addresses, queries and fields with telling names", () => {
  const { config, secrets } = splitSecrets({
    from: "redis://user:p%40ss@host:1/0",
    to: "redis://:only@a:1,b:2",
    plain: "redis://user@host:1",
    sentinel: "sentinel://h:1/m?sentinelPassword=of-sentinel&password=qq",
    unencoded: "redis://user:sl/ash@host:1",
    port: "https://host:8080/dump@home.rdb",
    dump: "https://store/dump.rdb?X-Amz-Signature=signed&sig=shared&version=3",
    nested: [{ apiToken: "t0ken", note: "a:b@c" }],
  });
  const text = JSON.stringify(config);
  for (const secret of ["p%40ss", "only", "of-sentinel", "ash", "qq", "signed", "shared", "t0ken"])
    expect(text).not.toContain(secret);
  expect(text).toContain("version=3");
  expect(config).toMatchObject({ port: "https://host:8080/dump@home.rdb" });
  expect(config).toMatchObject({ from: "redis://user@host:1/0", to: "redis://a:1,b:2" });
  expect(config).toMatchObject({ plain: "redis://user@host:1", nested: [{ note: "a:b@c" }] });
  expect(Object.keys(secrets).sort()).toEqual([
    "/dump",
    "/from",
    "/nested/0/apiToken",
    "/sentinel",
    "/to",
    "/unencoded",
  ]);
});

it("gives back what was sealed, only for the same task and field, with the same key", () => {
  const config: Json = {
    from: "redis://:secret@h:1",
    list: ["redis://u:v@h"],
    "a/b~c": { password: "x" },
  };
  const sealed = box.seal(config, "task_1");
  expect(JSON.stringify(sealed)).not.toMatch(/secret@|:v@/);
  expect(box.open(sealed, "task_1")).toEqual(config);
  expect(() => box.open(sealed, "task_2")).toThrow(/cannot be decrypted/);
  const moved = { config, secrets: { "/list/0": sealed.secrets["/from"] ?? "" } };
  expect(() => box.open(moved, "task_1")).toThrow(/cannot be decrypted/);
  expect(() => new SecretBox("55".repeat(32)).open(sealed, "task_1")).toThrow(
    /cannot be decrypted/,
  );
  const rotated = new SecretBox(`${"55".repeat(32)},${"44".repeat(32)}`);
  expect(rotated.open(sealed, "task_1")).toEqual(config);
  expect(() => new SecretBox(undefined).seal(config, "task_1")).toThrow(/ROPEWAY_SECRET_KEY/);
  expect(() => new SecretBox("short")).toThrow(/32 random bytes/);
  expect(new SecretBox("").seal({ from: "redis://h:1" }, "task_1").secrets).toEqual({});
});

it("takes out every password of a list of URLs, and everything below a telling name", () => {
  const config: Json = {
    from: "redis://:hidden1@a:1,redis://u:hidden2@b:2",
    backup: "https://h/x?to=redis://u:hidden3@c:3",
    auth: "hidden4",
    pass: "hidden5",
    apiKey: "hidden6",
    credentials: { user: "hidden7", list: ["hidden8"] },
    author: "shown",
    compass: "shown",
  };
  const sealed = box.seal(config, "task_1");
  expect(JSON.stringify(sealed)).not.toContain("hidden");
  expect(sealed.config).toMatchObject({
    from: "redis://b:2",
    author: "shown",
    compass: "shown",
  });
  expect(box.open(sealed, "task_1")).toEqual(config);
  expect(() => splitSecrets({ a: { password: 12345 } })).toThrow(/config\.a\.password/);
  expect(() => splitSecrets({ password: 12345 })).not.toThrow(/12345/);
});

it.each([
  ["redis://u:12/hidden@h:1", "redis://u@h:1"],
  ["redis://u:12?hidden@h:1", "redis://u@h:1"],
  ["redis://u:12#hid/den@h:1/0", "redis://u@h:1/0"],
  ["redis://:12/hid=den@h:1", "redis://h:1"],
])("finds a password that looks like a port: %s", (from, shown) => {
  const sealed = box.seal({ from }, "task_1");
  expect(sealed.config).toEqual({ from: shown });
  expect(box.open(sealed, "task_1")).toEqual({ from });
});

it.each([
  ["redis://us/er:hidden@h:1", "redis://us/er@h:1"],
  ["redis://us#er:hidden@h:1", "redis://us#er@h:1"],
  ["redis://u:a@b/hidden@h:1", "redis://u@h:1"],
  ["redis://u:a@b#hidden@h:1/0", "redis://u@h:1/0"],
  ["redis://u@v:hidden@h:1", "redis://u@v@h:1"],
  ["cluster://u:a@b/hidden@h:1,i:2", "cluster://u@h:1,i:2"],
  ["sentinel://u:a@b/hidden@h:1,i:2/m?db=0", "sentinel://u@h:1,i:2/m?db=0"],
  ["sentinel://h:1/m?sentinelPassword=a#hidden&db=0", "sentinel://h:1/m?sentinelPassword=&db=0"],
  ["sentinel://h:1/m?sentinel%50assword=hidden", "sentinel://h:1/m?sentinel%50assword="],
  ["unix://u:p@hidden@/run/a@b.sock?db=1", "unix://u@/run/a@b.sock?db=1"],
  ["https:///u:hidden@h/dump.rdb", "https://u@h/dump.rdb"],
  ["https://\t/u:hidden@h/dump.rdb", "https://u@h/dump.rdb"],
  ["https://\\/u:hidden@h/dump.rdb", "https://u@h/dump.rdb"],
  ["https://h/dump.rdb?pass=hidden", "https://h/dump.rdb?pass="],
  ["ftp://u:a@b/hidden@h/dump.rdb", "ftp://u@h/dump.rdb"],
])("finds a password wherever the program that uses the address finds it: %j", (from, shown) => {
  const sealed = box.seal({ from }, "task_1");
  expect(sealed.config).toEqual({ from: shown });
  expect(box.open(sealed, "task_1")).toEqual({ from });
});

it.each([
  "redis://h:6379/0",
  "unix:///run/a:b@c.sock",
  "redis://h:6379/0?name=a@b",
  "redis://a:1,b:2/0",
  "https://h:443/dumps@daily/dump.rdb",
])("leaves an address without a password as it is: %s", (from) => {
  expect(splitSecrets({ from })).toEqual({ config: { from }, secrets: {} });
});

it.each([
  ["letters", "y".repeat(200_000)],
  ["questions", "?key".repeat(50_000)],
  ["parameters", `redis://h?${"key&".repeat(50_000)}`],
  ["an address that does not end", `redis://u:x${"/".repeat(200_000)}`],
  ["a path of a socket", `unix://${"a".repeat(200_000)}`],
  ["many schemes", `redis://h${"://".repeat(60_000)}`],
  ["many addresses", "a://u:p@h?token=t,".repeat(10_000)],
])("searches long text in proportion to its length: %s", (_, text) => {
  expect(box.open(box.seal({ text }, "task_1"), "task_1")).toEqual({ text });
});

it("refuses a configuration that is nested too deeply to be searched for secrets", () => {
  let config: Json = { password: "deep down" };
  for (let depth = 0; depth < 20; depth++) config = { in: config };
  expect(() => splitSecrets(config)).toThrow(/at most 16 levels deep/);
});
