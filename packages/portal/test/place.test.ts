import { expect, test } from "vitest";
import { addressOf, placeOf } from "../src/access/place.ts";

test.each([
  ["127.0.0.1", "127.0.0.1"],
  ["::ffff:10.1.2.3", "10.1.2.3"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"],
  ["2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"],
  ["2001:0DB8:0001:0002::9", "2001:db8:1:2::/64"],
  ["2001:db8::1", "2001:db8:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["::", "0:0:0:0::/64"],
  ["1::", "1:0:0:0::/64"],
  ["64:ff9b::1.2.3.4", "64:ff9b:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["not an address", "not an address"],
])("%s is the place %s", (ip, place) => {
  expect(placeOf(ip)).toBe(place);
});

test.each([
  ["203.0.113.9", "203.0.113.9"],
  ["203.0.113.9:51234", "203.0.113.9"],
  ["[2001:db8::1]:51234", "2001:db8::1"],
  ["[2001:db8::1]", "2001:db8::1"],
  ["2001:db8::1", "2001:db8::1"],
  ["x".repeat(12_000), "127.0.0.1"],
  ["<b>1.2.3.4</b>", "127.0.0.1"],
  ["", "127.0.0.1"],
])("a proxy that says %s means the address %s", (ip, address) => {
  expect(addressOf({ ip, socket: { remoteAddress: "127.0.0.1" } })).toBe(address);
});
