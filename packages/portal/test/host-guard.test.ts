import { expect, test } from "vitest";
import { foreignOrigin, HostGuard } from "../src/access/host-guard.ts";

const host = "portal.example:7480";

test.each([
  ["a request that no browser sent", "POST", {}],
  ["a write from our own page", "POST", { origin: `http://${host}` }],
  ["the same behind a proxy that does TLS", "POST", { origin: `https://${host}` }],
  ["a write the browser calls same-origin", "PUT", { "sec-fetch-site": "same-origin" }],
  ["a write typed by the user", "POST", { "sec-fetch-site": "none" }],
  [
    "a link on another site",
    "GET",
    {
      "sec-fetch-site": "cross-site",
      "sec-fetch-mode": "navigate",
      "sec-fetch-dest": "document",
    },
  ],
  [
    "a write with an Authorization header",
    "POST",
    { origin: "http://evil.example", authorization: "Bearer x" },
  ],
])("%s is fine", (_title, method, headers) => {
  expect(foreignOrigin({ method, headers, host })).toBeUndefined();
});

test.each([
  ["another site", { origin: "http://evil.example" }, "http://evil.example"],
  ["another port", { origin: "http://portal.example:80" }, "http://portal.example:80"],
  [
    "a subdomain",
    { "sec-fetch-site": "same-site", origin: "http://a.portal.example" },
    "http://a.portal.example",
  ],
  ["a sandboxed frame", { origin: "null" }, "null"],
  ["a site that hides its name", { "sec-fetch-site": "cross-site" }, "cross-site"],
  [
    "an image or a frame on another site",
    {
      "sec-fetch-site": "cross-site",
      "sec-fetch-mode": "navigate",
      "sec-fetch-dest": "iframe",
    },
    "cross-site",
  ],
])("a request from %s is refused", (_title, headers, foreign) => {
  for (const method of ["DELETE", "GET"]) {
    expect(foreignOrigin({ method, headers, host })).toBe(foreign);
  }
});

test("a form that another site sends as a navigation is refused", () => {
  const headers = {
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
  };
  expect(foreignOrigin({ method: "POST", headers, host })).toBe("cross-site");
});

test.each([
  "",
  "localhost",
  "LOCALHOST:7480",
  "a.localhost:1",
  "127.0.0.1:7480",
  "[::1]:7480",
  "10.0.0.7",
])("the host %j is served", (each) => {
  expect(new HostGuard().refusal({ method: "POST", headers: {}, host: each })).toBeUndefined();
});

test.each([
  "evil.example",
  "evil.example:7480",
  "localhost.evil.example",
  "127.0.0.1.evil.example",
  "localhost@evil.example",
  "a b",
  "0x7f.1",
  "notlocalhost",
])("the host %j of a stranger is refused, also for reads", (each) => {
  const refusal = new HostGuard().refusal({ method: "GET", headers: {}, host: each });
  expect(refusal).toMatchObject({ code: "UNKNOWN_HOST", details: { host: each } });
});

test("configured hosts are served by name, whatever the port, and * serves all", () => {
  const asked = { method: "GET", headers: {}, host: "Portal.Example.:8443" };
  expect(new HostGuard(["portal.example"]).refusal(asked)).toBeUndefined();
  expect(new HostGuard(["other.example"]).refusal(asked)?.code).toBe("UNKNOWN_HOST");
  expect(new HostGuard(["*"]).refusal(asked)).toBeUndefined();
});

test("a request without a host is served, whatever host was named before", () => {
  const guard = new HostGuard();
  for (const host of ["", "127.0.0.1:7480", "", "localhost", ""]) {
    expect(guard.refusal({ method: "GET", headers: {}, host })).toBeUndefined();
  }
});

test("a stranger's host is refused each time, also between requests for ours", () => {
  const guard = new HostGuard();
  const codeOf = (host: string) => guard.refusal({ method: "GET", headers: {}, host })?.code;
  const codes = ["evil.example", "evil.example", "localhost", "evil.example"].map(codeOf);
  expect(codes).toEqual(["UNKNOWN_HOST", "UNKNOWN_HOST", undefined, "UNKNOWN_HOST"]);
});
