import { InvalidOptionError } from "@ropeway/core";
import { describe, expect, test } from "vitest";
import { parseEtcdUrl } from "../src/open-store.ts";

describe("the URL of a store", () => {
  test("has hosts with a default port, and a user whose password may have any character", () => {
    expect(parseEtcdUrl("etcds://ann:p%40ss%2F@one:2380,[::1],three")).toEqual({
      endpoints: ["https://one:2380", "https://[::1]:2379", "https://three:2379"],
      user: { name: "ann", password: "p@ss/" },
    });
  });

  test.each([
    "etcd://ann:hunter2%@one",
    "etcd://ann:hunter2@one:123456",
    "etcd:ann:hunter2@one",
    "http://ann:hunter2@one",
  ])("%s is refused without its password", (url) => {
    let refusal: unknown;
    try {
      parseEtcdUrl(url);
    } catch (error) {
      refusal = error;
    }
    expect(refusal).toBeInstanceOf(InvalidOptionError);
    expect(String(refusal)).toContain("store.url");
    expect(String(refusal)).not.toContain("hunter2");
  });
});
