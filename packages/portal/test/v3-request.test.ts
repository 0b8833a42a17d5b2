import { InvalidArgumentError } from "@ropeway/merge";
import fc from "fast-check";
import { expect, test } from "vitest";
import { cutPath, readBody, readQuery, targetOfPath } from "../src/queue/v3-request.ts";

const onlyOurs = (work: () => unknown) => {
  try {
    work();
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidArgumentError);
  }
};

test("no path, query or body makes the reader throw anything but its own error", () => {
  const any = fc.oneof(fc.string({ unit: "binary" }), fc.webUrl(), fc.base64String());
  fc.assert(fc.property(any, (path) => onlyOurs(() => targetOfPath(cutPath(`/v3/queue/${path}`)))));
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
  const target = { mergeKey: "k", method: "POST", url: "http://a.test/" };
  const deep = Buffer.from("[".repeat(400_000));
  expect(() => readBody(target, deep, undefined)).toThrow(InvalidArgumentError);
  const closed = Buffer.from("[".repeat(5_000) + "]".repeat(5_000));
  expect(readBody(target, closed, undefined).content).toHaveLength(10_000);
});

test("a slash in a merge key is encoded, and the service keeps its own", () => {
  const service = Buffer.from("http://a.test/?x=~~~").toString("base64"); // has a slash or plus
  const path = cutPath(`/v3/queue/a%2Fb/POST/${service}?ontime=1`);
  expect(targetOfPath(path)).toEqual({
    mergeKey: "a/b",
    method: "POST",
    url: "http://a.test/?x=~~~",
  });
});
