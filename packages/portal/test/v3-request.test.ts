import { InvalidArgumentError } from "@ropeway/core";
import { checkJson } from "@ropeway/merge/internal";
import fc from "fast-check";
import { expect, test } from "vitest";
import { cutPath, destinationOfPath, readBody, readQuery } from "../src/merge/v3-request.ts";

const onlyOurs = (work: () => unknown) => {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidArgumentError);
  }
};

test("no path, query or body makes the reader throw anything but its own error", () => {
  const any = fc.oneof(fc.string({ unit: "binary" }), fc.webUrl(), fc.base64String());
  fc.assert(
    fc.property(any, (path) => onlyOurs(() => destinationOfPath(cutPath(`/v3/queue/${path}`)))),
  );
  fc.assert(
    fc.property(
      fc.dictionary(fc.constantFrom("update", "ontime", "maxwait", "x"), fc.anything()),
      (q) => onlyOurs(() => readQuery(q)),
    ),
  );
  const target = { method: "POST", url: "http://a.test/" };
  fc.assert(
    fc.property(fc.uint8Array(), fc.constantFrom("k", "-k"), (bytes, mergeKey) =>
      onlyOurs(() => readBody({ ...target, mergeKey }, Buffer.from(bytes), undefined)),
    ),
  );
});

test("deeply nested JSON is taken or refused, never a crash", () => {
  const to = { mergeKey: "k", method: "POST", url: "http://a.test/" };
  const deep = Buffer.from("[".repeat(400_000));
  expect(() => checkJson(readBody(to, deep, undefined).content)).toThrow(InvalidArgumentError);
  const closed = Buffer.from("[".repeat(5_000) + "]".repeat(5_000));
  expect(() => checkJson(readBody(to, closed, undefined).content)).not.toThrow();
});

test("a slash in a merge key is encoded, and the service keeps its own", () => {
  const service = Buffer.from("http://a.test/?x=~~~").toString("base64"); // has a slash or plus
  const path = cutPath(`/v3/queue/a%2Fb/POST/${service}?ontime=1`);
  expect(destinationOfPath(path)).toEqual({
    mergeKey: "a/b",
    method: "POST",
    url: "http://a.test/?x=~~~",
  });
});

test("a parameter that does not exist is refused", () => {
  expect(() => readQuery({ onTime: "4000000000" })).toThrow("onTime is");
  expect(readQuery({ ontime: "4000000000" }).at).toBe(4_000_000_000_000);
});
