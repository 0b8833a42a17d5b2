import { expect, test } from "vitest";
import { compareVersions, parseVersion } from "../src/version.ts";

test.each([
  ["Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64", "7.0.15"],
  ["Valkey server v=8.1.1 sha=00000000:0", "8.1.1"],
  ["redis-cli 6.2.7 (git:0000)", "6.2.7"],
  ["etcd Version: 3.4.23\nGit SHA: Not provided\nGo Version: go1.19.8", "3.4.23"],
  ["Chromium 140.0.7339.80 built on Debian GNU/Linux 12", "140.0.7339.80"],
  ["5:7.0.15-1~deb12u10", "7.0.15"],
  ["3.5.16-4", "3.5.16"],
  ["1:2.66-4", "2.66"],
])("the version in %j is %s", (text, version) => {
  expect(parseVersion(text)).toBe(version);
});

test.each(["", "redis-server", "version 7", "1:7-2"])("%j holds no version", (text) => {
  expect(parseVersion(text)).toBeUndefined();
});

test("versions compare number by number, a missing number being 0", () => {
  const sorted = ["6.2", "6.2.0", "6.2.1", "6.10", "7.0.15", "140.0.7339.80"];
  for (const [index, version] of sorted.entries()) {
    for (const later of sorted.slice(index + 1)) {
      expect(compareVersions(version, later)).toBeLessThanOrEqual(0);
    }
  }
  expect(compareVersions("6.2", "6.2.0")).toBe(0);
  expect(compareVersions("6.10", "6.9")).toBeGreaterThan(0);
});
