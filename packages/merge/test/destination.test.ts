import fc from "fast-check";
import { expect, test } from "vitest";
import { destination, destinationOf, encodeService, keyOf } from "../src/index.ts";
import { decodeService } from "../src/queue/destination.ts";

const read = (mergeKey: string, method: string, service: string) =>
  destination({ mergeKey, method, url: decodeService(service) });

const SEED = "aHR0cDovLzEyNy4wLjAuMToyMzMzMy92My9ub3RpZmllci9jcm9zcy9kaWdlc3Q=";

test("the seed's own example is read as it is meant, padding or not", () => {
  const to = {
    mergeKey: "cross123_789",
    method: "POST",
    url: "http://127.0.0.1:23333/v3/notifier/cross/digest",
  };
  expect(read("cross123_789", "POST", SEED)).toEqual(to);
  expect(read("cross123_789", "post", SEED.replace("=", ""))).toEqual(to);
});

test("a merge key is taken literally: -123 and -job stay single, base64 stays text", () => {
  for (const mergeKey of ["-123", "-job", "-", "cross123_789", "a,b", "a b c", "a:data", "%2F"]) {
    const to = read(mergeKey, "POST", SEED);
    expect(to.mergeKey).toBe(mergeKey);
    const key = keyOf(to, "id1");
    expect(key.endsWith(mergeKey.startsWith("-") ? " POST id1" : " POST")).toBe(true);
    expect(destinationOf(key)).toEqual(to);
  }
});

test("commas in the URL or the merge key split nothing", () => {
  const url = "http://example.com/a,b?c=d,e";
  const to = read("k,1", "PUT", encodeService(url));
  expect(destinationOf(keyOf(to, "x"))).toEqual({ mergeKey: "k,1", method: "PUT", url });
});

test.each([
  ["merge_key", "", "POST", SEED],
  ["method", "k", "BREW", SEED],
  ["method", "k", "", SEED],
  ["service", "k", "POST", ""],
  ["service", "k", "POST", "%%%"],
  ["service", "k", "POST", encodeService("ftp://example.com/")],
  ["service", "k", "POST", encodeService("file:///etc/passwd")],
  ["service", "k", "POST", encodeService("just text")],
  ["service", "k", "POST", encodeService("http://user:pass@example.com/")],
  ["service", "k", "POST", encodeService(`http://example.com/${"x".repeat(3000)}`)],
])("a wrong %s is named", (parameter, ...path) => {
  expect(() => read(...(path as [string, string, string]))).toThrow(
    expect.objectContaining({ code: "INVALID_ARGUMENT", argument: parameter }),
  );
});

test("whatever the merge key, the key leads back to the destination, and two destinations never meet", () => {
  const part = fc.record({
    mergeKey: fc.string({ minLength: 1, maxLength: 30, unit: "binary" }),
    method: fc.constantFrom("POST", "PUT"),
    url: fc.constantFrom("http://a.test/", "https://b.test/x?y=1,2", "http://a.test/POST"),
  });
  fc.assert(
    fc.property(part, part, (one, two) => {
      expect(destinationOf(keyOf(one, "i"))).toEqual(one);
      if (keyOf(one, "i") === keyOf(two, "i")) expect(one).toEqual(two);
    }),
  );
}, 60_000);

test("no path makes the reader throw anything but its own error", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), fc.string(), (mergeKey, method, service) => {
      try {
        read(mergeKey, method, service);
      } catch (error) {
        expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
      }
    }),
  );
});
