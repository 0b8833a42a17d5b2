import { expect, test } from "vitest";
import { AddressGuard } from "../src/delivery/address-guard.ts";

const guard = new AddressGuard();

test.each([
  "127.0.0.1",
  "127.9.9.9",
  "10.0.0.1",
  "172.16.0.1",
  "172.31.255.255",
  "192.168.1.1",
  "169.254.169.254",
  "100.64.0.1",
  "0.0.0.0",
  "192.0.0.8",
  "198.18.0.1",
  "224.0.0.1",
  "255.255.255.255",
  "::",
  "::1",
  "::127.0.0.1",
  "::ffff:10.0.0.1",
  "::ffff:7f00:1",
  "fe80::1",
  "fc00::1",
  "fd12:3456::1",
  "ff02::1",
  "2001:db8::1",
  "2001::1",
  "2002:7f00:1::",
  "64:ff9b::7f00:1",
  "64:ff9b:1::1",
  "100::1",
  "3fff::1",
  "5f00::1",
])("%s is blocked", async (address) => {
  await expect(guard.addresses(address)).rejects.toMatchObject({ code: "BLOCKED_ENDPOINT" });
});

test.each(["93.184.216.34", "8.8.8.8", "172.32.0.1", "2606:4700::1111", "::ffff:8.8.8.8"])(
  "%s is public",
  async (address) => {
    await expect(guard.addresses(address)).resolves.toHaveLength(1);
  },
);

test("one blocked address among several blocks the name", async () => {
  const both = new AddressGuard([], async () => [
    { address: "8.8.8.8", family: 4 },
    { address: "10.0.0.1", family: 4 },
  ]);
  await expect(both.addresses("two.test")).rejects.toThrow("two.test (10.0.0.1)");
});

test("words, networks, addresses and names open exactly what they say", async () => {
  const open = new AddressGuard(
    ["loopback", "10.1.0.0/16", "192.168.7.7", "db.internal"],
    async () => [{ address: "172.16.0.9", family: 4 }],
  );
  for (const fine of [
    "127.0.0.1",
    "::1",
    "10.1.2.3",
    "192.168.7.7",
    "db.internal",
    "DB.internal.",
  ]) {
    await expect(open.addresses(fine)).resolves.toBeDefined();
  }
  for (const not of ["10.2.0.1", "192.168.7.8", "other.internal", "169.254.169.254"]) {
    await expect(open.addresses(not)).rejects.toMatchObject({ code: "BLOCKED_ENDPOINT" });
  }
});

test("a literal in any spelling is seen before any connection", () => {
  const literals = [
    "http://127.1/",
    "http://0x7f000001/",
    "http://2130706433/",
    "http://[::1]:80/",
  ];
  for (const url of literals) expect(() => guard.checkLiteral(url)).toThrow("must not be called");
  expect(() => guard.checkLiteral("https://example.com/")).not.toThrow();
});

test("an allowed name may end in a dot", async () => {
  const allowing = new AddressGuard(["inner.example."], async () => [
    { address: "10.0.0.1", family: 4 },
  ]);
  await expect(allowing.addresses("inner.example")).resolves.toHaveLength(1);
  await expect(allowing.addresses("inner.example.")).resolves.toHaveLength(1);
});
