import { expect, test } from "vitest";
import { parseEndpoint, showEndpoint } from "../src/endpoint.ts";
import { InvalidOptionError } from "../src/errors.ts";

test("a plain URL names one server, its user, password and database", () => {
  expect(parseEndpoint("redis://ann:p%40ss%3A%2F@db.local:6380/3")).toEqual({
    topology: "standalone",
    addresses: [{ host: "db.local", port: 6380 }],
    username: "ann",
    password: "p@ss:/",
    db: 3,
  });
});

test("what is left out has its usual value", () => {
  expect(parseEndpoint("redis://")).toEqual({
    topology: "standalone",
    addresses: [{ host: "127.0.0.1", port: 6379 }],
  });
  expect(parseEndpoint("rediss://[::1]")).toEqual({
    topology: "standalone",
    addresses: [{ host: "::1", port: 6379 }],
    tls: true,
  });
});

test("sentinel:// and cluster:// are short forms, with an s for TLS", () => {
  expect(parseEndpoint("sentinel://a:1/main")).toEqual(parseEndpoint("redis-sentinel://a:1/main"));
  expect(parseEndpoint("cluster://a,b:2")).toEqual(parseEndpoint("redis-cluster://a,b:2"));
  expect(parseEndpoint("sentinels://a/m")).toEqual(parseEndpoint("rediss-sentinel://a/m"));
  expect(parseEndpoint("clusters://a")).toEqual(parseEndpoint("rediss-cluster://a"));
});

test("sockets, sentinels and clusters have URLs too", () => {
  const socket = { topology: "standalone", addresses: [{ path: "/run/redis.sock" }], db: 2 };
  expect(parseEndpoint("redis+unix:///run/redis.sock?db=2")).toEqual(socket);
  expect(parseEndpoint("unix://:secret@/run/redis.sock?db=2")).toEqual({
    ...socket,
    password: "secret",
  });
  expect(parseEndpoint("redis-sentinel://:x@a:1,b/main?db=1&sentinelPassword=y")).toEqual({
    topology: "sentinel",
    addresses: [
      { host: "a", port: 1 },
      { host: "b", port: 26379 },
    ],
    masterName: "main",
    password: "x",
    sentinelPassword: "y",
    db: 1,
  });
  expect(parseEndpoint("redis-cluster://a:7000,b:7001")).toEqual({
    topology: "cluster",
    addresses: [
      { host: "a", port: 7000 },
      { host: "b", port: 7001 },
    ],
  });
});

test.each([
  "http://127.0.0.1",
  "127.0.0.1:6379",
  "redis://host:99999",
  "redis://a,b",
  "redis://host/eleven",
  "redis-sentinel://host:1",
  "redis://u:%zz@host",
])("%s is refused with what is allowed", (url) => {
  expect(() => parseEndpoint(url)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
});

test("no message repeats a password", () => {
  expect(() => parseEndpoint("redis://ann:hush@host:0")).toThrow(/ann:\*\*\*@host/);
  expect(showEndpoint(parseEndpoint("redis://ann:hush@host"))).toBe("host:6379");
});

test("what is not understood is refused, typed, and without the password", () => {
  const refused = (url: string) => {
    try {
      parseEndpoint(url);
    } catch (error) {
      return error as InvalidOptionError;
    }
    return expect.unreachable(url);
  };
  expect(refused("redis-sentinel://h:1/%zz")).toBeInstanceOf(InvalidOptionError);
  expect(refused("redis://h:1?db=2")).toBeInstanceOf(InvalidOptionError);
  expect(refused("redis://:top?secret@h:1").message).not.toMatch(/top|secret/);
});

test("a socket's path may hold an @", () => {
  expect(parseEndpoint("unix:///run/a@b.sock")).toMatchObject({
    addresses: [{ path: "/run/a@b.sock" }],
  });
  expect(parseEndpoint("unix://:pw@/run/a@b.sock")).toMatchObject({
    password: "pw",
    addresses: [{ path: "/run/a@b.sock" }],
  });
});

test.each([
  "redis:u:Hidden1@h:1",
  "redis:/u:Hidden1@h",
  "redis:\\\\u:Hidden1@h",
  "u:Hidden1@h:6379",
  ":Hidden1@h",
  "redis://h:1?password=Hidden1&db=2",
  "sentinel://h:1/name?sentinelPassword=Hidden1&bad=1",
  "sentinel://h:1/name?sentinelPassword=a#Hidden1&bad=1",
  "sentinel://h:1/name?sentinel%50assword=Hidden1&bad=1",
  "redis://us/er:Hidden1@h:0",
  "redis://u@v:Hidden1@h:0",
  "redis://u:a@b/Hidden1@h:0",
])("a mistyped address does not show its password: %s", (url) => {
  expect(() => parseEndpoint(url)).toThrow(InvalidOptionError);
  expect(() => parseEndpoint(url)).not.toThrow("Hidden1");
});

test.each([
  ["the path of a socket", `unix://${"a".repeat(200_000)}`],
  ["many schemes", `redis://h${"://".repeat(60_000)}`],
  ["many parameters", `redis://h?${"passw".repeat(40_000)}`],
  ["many slashes", `redis://${"/".repeat(200_000)}`],
])("a long address is read in proportion to its length: %s", (_, url) => {
  const before = process.cpuUsage();
  try {
    parseEndpoint(url);
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidOptionError);
  }
  // A search from each character takes 10 seconds.
  expect(process.cpuUsage(before).user / 1_000).toBeLessThan(2_000);
});
